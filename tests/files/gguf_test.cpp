// GGUF: typed metadata, tensor descriptions, and every way in which a file can be wrong (PITFALLS "Models and files").
#include "model/files/gguf.h"

#include <sys/resource.h>

#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One tensor [2, 3] and one key of several types.
GgufImage small_image() {
  GgufImage image;
  image.text("general.architecture", "llama").u32("count", 7).f32("ratio", 0.5F);
  image.key("flag", kBool, std::string(1, '\1')).list("words", kString, 2, gguf_string("a") + gguf_string(""));
  image.list("scores", kF32, 2, bytes_of(1.5F) + bytes_of(-2.0F)).list("kinds", kI32, 2, bytes_of(-1) + bytes_of(6));
  image.tensor("w", {3, 2}, {0, 1, 2, 3, 4, 5});
  return image;
}

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", bytes);
  const std::string message = input_error([&] { GgufFile::open(path); });
  EXPECT_THAT(message, HasSubstr("m.gguf")) << "the message must name the file";
  return message;
}

std::string error_of(const GgufImage& image) { return error_of(image.bytes()); }

TEST(Gguf, MetadataIsReadByTypeAndTensorsByName) {
  const TemporaryFolder folder;
  const auto file = GgufFile::open(folder.write("m.gguf", small_image().bytes()));
  EXPECT_EQ(file->string("general.architecture"), "llama");
  EXPECT_EQ(file->integer("count"), 7);
  EXPECT_EQ(file->number("count"), 7.0);
  EXPECT_EQ(file->number("ratio"), 0.5);
  EXPECT_TRUE(file->boolean("flag"));
  EXPECT_THAT(file->strings("words"), ElementsAre("a", ""));
  EXPECT_THAT(file->numbers("scores"), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(file->integers("kinds"), ElementsAre(-1, 6));
  EXPECT_FALSE(file->has("absent"));
  ASSERT_EQ(file->tensors().size(), 1U);
  const TensorInfo* tensor = file->find_tensor("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, "F32");
  EXPECT_THAT(tensor->shape, ElementsAre(2, 3));  // row-major
  EXPECT_EQ(tensor->data.size(), 24U);
  EXPECT_EQ(file->find_tensor("v"), nullptr);
}

TEST(Gguf, AValueOfAnotherTypeIsRefusedWithFileKeyAndBothTypes) {
  const TemporaryFolder folder;
  const auto file = GgufFile::open(folder.write("m.gguf", small_image().bytes()));
  EXPECT_THAT(input_error([&] { file->integer("ratio"); }),
              AllOf(HasSubstr("m.gguf"), HasSubstr("ratio"), HasSubstr("f32")));
  EXPECT_THAT(input_error([&] { file->numbers("words"); }), HasSubstr("list of string"));
  EXPECT_THAT(input_error([&] { file->numbers("kinds"); }), HasSubstr("list of i32"));
  EXPECT_THAT(input_error([&] { file->integers("count"); }), HasSubstr("list of integers"));
  EXPECT_THAT(input_error([&] { file->integer("kinds"); }), HasSubstr("an integer"));
  EXPECT_THAT(input_error([&] { file->boolean("count"); }), HasSubstr("a bool"));
  EXPECT_THAT(input_error([&] { file->string("words"); }), HasSubstr("a string"));
  EXPECT_THAT(input_error([&] { file->strings("absent"); }), HasSubstr("absent"));
}

TEST(Gguf, AnIntegerThatDoesNotFitIsRefused) {
  const TemporaryFolder folder;
  GgufImage image;
  image.key("n", kU64, bytes_of(std::uint64_t{1} << 63));
  const auto file = GgufFile::open(folder.write("m.gguf", image.bytes()));
  EXPECT_THAT(input_error([&] { file->integer("n"); }), HasSubstr("n must be an integer"));
}

TEST(Gguf, OnlyVersions2And3OfTheRightMagicAreRead) {
  GgufImage image = small_image();
  for (const std::uint32_t version : {0U, 1U, 4U, 0xffffffffU}) {
    image.version = version;
    EXPECT_THAT(error_of(image), HasSubstr("version")) << version;
  }
  image.version = 3U << 24;
  EXPECT_THAT(error_of(image), HasSubstr("big-endian"));
  EXPECT_THAT(error_of("GGML" + image.bytes().substr(4)), HasSubstr("no GGUF file"));
  EXPECT_THAT(error_of(""), HasSubstr("cut short"));
}

TEST(Gguf, DimensionsOutOfRangeAreRefused) {
  GgufImage image = small_image();
  image.tensors[0].dims = {1, 1, 1, 1, 1};
  EXPECT_THAT(error_of(image), AllOf(HasSubstr("5 dimensions"), HasSubstr("'w'"), HasSubstr("at byte")));
  image.tensors[0].n_dims = 0xffffffffU;
  EXPECT_THAT(error_of(image), HasSubstr("4294967295 dimensions"));
  image.tensors[0].n_dims = 0;
  EXPECT_THAT(error_of(image), HasSubstr("0 dimensions"));
}

TEST(Gguf, DimensionsWhoseProductWrapsOrIsZeroAreRefused) {
  GgufImage image = small_image();
  image.tensors[0].dims = {std::uint64_t{1} << 32, std::uint64_t{1} << 32};
  EXPECT_THAT(error_of(image), HasSubstr("does not fit 64 bits"));
  image.tensors[0].dims = {std::uint64_t{1} << 63, 2};
  EXPECT_THAT(error_of(image), HasSubstr("does not fit 64 bits"));
  image.tensors[0].dims = {std::uint64_t{1} << 62};  // the count fits, the bytes do not
  EXPECT_THAT(error_of(image), HasSubstr("does not fit 64 bits"));
  image.tensors[0].dims = {3, 0};
  EXPECT_THAT(error_of(image), AllOf(HasSubstr("zero"), HasSubstr("'w'")));
}

TEST(Gguf, CountsNear2To63AreRefusedInSmallMemory) {
  struct rusage before {};
  getrusage(RUSAGE_SELF, &before);
  for (const std::uint64_t count : {(std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    GgufImage image = small_image();
    image.n_tensors = count;
    EXPECT_THAT(error_of(image), HasSubstr("at byte"));
    image = small_image();
    image.n_keys = count;
    EXPECT_THAT(error_of(image), HasSubstr("at byte"));
    for (const std::uint32_t type :
         {std::uint32_t{kU8}, std::uint32_t{kF32}, std::uint32_t{kString}, std::uint32_t{kList}}) {
      image = small_image();
      image.list("huge", type, count, "");
      EXPECT_THAT(error_of(image), HasSubstr("at byte")) << type;
    }
  }
  struct rusage after {};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024) << "KiB";
}

TEST(Gguf, AStringPastTheEndIsRefusedWithItsPlace) {
  GgufImage image;
  image.key("k", kString, bytes_of<std::uint64_t>(1000) + "short");
  EXPECT_THAT(error_of(image), AllOf(HasSubstr("'k'"), HasSubstr("1000 bytes"), HasSubstr("at byte 45")));
  image = GgufImage{};
  image.key("k", kString, bytes_of(~std::uint64_t{0}));
  EXPECT_THAT(error_of(image), HasSubstr("18446744073709551615"));
}

TEST(Gguf, EmptyDuplicateAndUnknownKeysAreRefused) {
  EXPECT_THAT(error_of(GgufImage{}.u32("", 1)), HasSubstr("key is empty"));
  EXPECT_THAT(error_of(GgufImage{}.u32("a", 1).u32("a", 2)), HasSubstr("duplicate metadata key 'a'"));
  EXPECT_THAT(error_of(GgufImage{}.key("a", 13, "12345678")), HasSubstr("unknown type 13"));
  EXPECT_THAT(error_of(GgufImage{}.key("a", kBool, std::string(1, '\2'))), HasSubstr("neither 0 nor 1"));
}

TEST(Gguf, ListsNestedTooDeepAreRefused) {
  std::string value = bytes_of<std::uint32_t>(kU8) + bytes_of<std::uint64_t>(0);
  for (int i = 0; i < 100; ++i) value = bytes_of<std::uint32_t>(kList) + bytes_of<std::uint64_t>(1) + value;
  EXPECT_THAT(error_of(GgufImage{}.key("deep", kList, value)), AllOf(HasSubstr("nested"), HasSubstr("'deep'")));
}

TEST(Gguf, TensorsOutsideTheDataOverlappingOrTwiceAreRefused) {
  GgufImage image = small_image();
  image.tensors[0].offset = 1 << 20;
  EXPECT_THAT(error_of(image), AllOf(HasSubstr("'w'"), HasSubstr("cut short")));
  image.tensors[0].offset = ~std::uint64_t{31};
  EXPECT_THAT(error_of(image), HasSubstr("cut short"));
  image.tensors[0].offset = 4;
  EXPECT_THAT(error_of(image), HasSubstr("not aligned"));
  image = small_image();
  image.tensor("v", {4}, {1, 2, 3, 4}).tensors[1].offset = 0;
  EXPECT_THAT(error_of(image), HasSubstr("overlap"));
  image = small_image();
  image.tensor("w", {4}, {1, 2, 3, 4});
  EXPECT_THAT(error_of(image), HasSubstr("two tensors are named 'w'"));
  image = small_image();
  image.tensors[0].name.clear();
  EXPECT_THAT(error_of(image), HasSubstr("empty name"));
}

TEST(Gguf, UnknownTensorTypesAndCutBlocksAreRefused) {
  GgufImage image = small_image();
  for (const std::uint32_t type : {4U, 31U, 77U, 0xffffffffU}) {
    image.tensors[0].type = type;
    EXPECT_THAT(error_of(image), HasSubstr("unknown type")) << type;
  }
  image.tensors[0].type = 8;  // Q8_0: rows of 3 are no whole block of 32
  EXPECT_THAT(error_of(image), HasSubstr("no whole number of Q8_0 blocks"));
}

TEST(Gguf, AlignmentMustBeAPowerOfTwo) {
  for (const std::uint32_t alignment : {0U, 3U, 48U}) {
    EXPECT_THAT(error_of(small_image().u32("general.alignment", alignment)), HasSubstr("power of two")) << alignment;
  }
  EXPECT_THAT(error_of(small_image().text("general.alignment", "32")), HasSubstr("power of two"));
  EXPECT_THAT(error_of(small_image().u32("general.alignment", 1U << 31)), HasSubstr("ends before its tensor data"));
}

TEST(Gguf, AFolderOrAMissingFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { GgufFile::open(folder.path()); }), HasSubstr("folder"));
  EXPECT_THAT(input_error([&] { GgufFile::open(folder.path() + "/none.gguf"); }), HasSubstr("none.gguf"));
}

TEST(Gguf, ControlBytesOfABrokenNameDoNotReachTheMessage) {
  GgufImage image = small_image();
  image.tensors[0].name = "w\n\x1b[31m";
  image.tensors[0].dims = {0};
  EXPECT_THAT(error_of(image), HasSubstr("'w\\x0a\\x1b[31m'"));
}

}  // namespace
}  // namespace kvlab::test
