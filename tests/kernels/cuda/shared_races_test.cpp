// The emulator's record of shared memory, byte by byte although it keeps whole words together.
#include "kernels/cuda_emulation/shared_races.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace kvlab::cuda::emulation {
namespace {

using Use = SharedRaces::Use;

constexpr int kLine = 7;

/// A block of two warps with 32 bytes of shared memory.
class SharedRacesTest : public testing::Test {
 protected:
  SharedRacesTest() { races_.begin_block(32, 64); }

  bool conflicts(Use use, std::size_t offset, std::size_t n, int thread) {
    try {
      races_.note(use, offset, n, thread, kLine);
      return false;
    } catch (const SharedRace&) {
      return true;
    }
  }

  SharedRaces races_{true};
};

TEST_F(SharedRacesTest, PartsOfAWordAreApart) {
  for (const Use second : {Use::write, Use::read}) {
    races_.pass_block_barrier();
    EXPECT_FALSE(conflicts(Use::write, 0, 2, 0));
    EXPECT_FALSE(conflicts(second, 2, 2, 1));
    EXPECT_FALSE(conflicts(second, 3, 1, 1));
    races_.pass_block_barrier();
    EXPECT_FALSE(conflicts(Use::write, 5, 1, 0));
    EXPECT_FALSE(conflicts(second, 4, 1, 40));
    EXPECT_TRUE(conflicts(second, 4, 2, 40)) << "thread 0 wrote byte 5";
  }
}

TEST_F(SharedRacesTest, AWordAndItsPartsConflictInEitherOrder) {
  for (const std::size_t offset : {8, 10, 11}) {
    const std::size_t n = offset == 11 ? 1 : 2;
    for (const int other : {1, 40}) {
      for (const bool part_first : {false, true}) {
        SCOPED_TRACE(testing::Message() << n << " bytes at " << offset << ", thread " << other << ", " << part_first);
        races_.begin_block(32, 64);
        EXPECT_FALSE(conflicts(Use::write, part_first ? offset : 0, part_first ? n : 16, 0));
        EXPECT_TRUE(conflicts(Use::read, part_first ? 0 : offset, part_first ? 16 : n, other));
        races_.begin_block(32, 64);
        EXPECT_FALSE(conflicts(Use::read, part_first ? offset : 0, part_first ? n : 16, 0));
        EXPECT_TRUE(conflicts(Use::write, part_first ? 0 : offset, part_first ? 16 : n, other));
      }
    }
  }
}

TEST_F(SharedRacesTest, BarriersGiveOrderToWholeWordsAndParts) {
  for (const std::size_t n : {2, 4, 16}) {
    races_.begin_block(32, 64);
    EXPECT_FALSE(conflicts(Use::write, 0, n, 0));
    races_.pass_warp_barrier(0, 0x3);  // lanes 0 and 1
    EXPECT_FALSE(conflicts(Use::read, 0, 16, 1));
    EXPECT_TRUE(conflicts(Use::read, 0, 2, 2)) << "lane 2 was not there";
    races_.pass_block_barrier();
    EXPECT_FALSE(conflicts(Use::write, 0, 16, 40));
  }
}

TEST_F(SharedRacesTest, ReadersThatAWriterHasMetAllOfAreInOrder) {
  for (int thread = 0; thread < 3; ++thread) EXPECT_FALSE(conflicts(Use::read, 0, 4, thread));
  races_.pass_warp_barrier(0, 0x3);
  EXPECT_TRUE(conflicts(Use::write, 0, 4, 0)) << "lane 2 may not have read yet";
  races_.pass_warp_barrier(0, 0xFFFFFFFF);
  EXPECT_FALSE(conflicts(Use::write, 0, 4, 0));
}

TEST_F(SharedRacesTest, ACopyUnderWayKeepsItsBytesOverBarriers) {
  EXPECT_FALSE(conflicts(Use::begin_copy, 16, 16, 0));
  races_.pass_block_barrier();
  EXPECT_FALSE(conflicts(Use::read, 12, 4, 1));
  EXPECT_TRUE(conflicts(Use::read, 30, 2, 1));
  EXPECT_TRUE(conflicts(Use::begin_copy, 16, 16, 0));
  EXPECT_FALSE(conflicts(Use::end_copy, 16, 16, 0));
  EXPECT_TRUE(conflicts(Use::read, 30, 2, 1)) << "no barrier lies between the wait and the read";
  races_.pass_block_barrier();
  EXPECT_FALSE(conflicts(Use::read, 30, 2, 1));
}

TEST_F(SharedRacesTest, ABlockForgetsTheOneBefore) {
  EXPECT_FALSE(conflicts(Use::begin_copy, 16, 16, 0));
  EXPECT_FALSE(conflicts(Use::write, 0, 4, 0));
  races_.begin_block(64, 128);
  EXPECT_FALSE(conflicts(Use::read, 0, 64, 100));
}

}  // namespace
}  // namespace kvlab::cuda::emulation
