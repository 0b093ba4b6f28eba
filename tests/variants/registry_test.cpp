// The registry: every axis reads back what it was set to, wrong values are refused with what is allowed.

#include "variants/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/error.h"

namespace kvlab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& axis, const std::string& value) {
  Variant variant;
  try {
    find_axis(axis).set(variant, value);
  } catch (const InputError& error) {
    EXPECT_EQ(variant, Variant()) << "a refused value changed the variant";
    return error.what();
  }
  return "accepted";
}

TEST(Registry, EveryValueReadsBack) {
  for (const Axis& axis : axes()) {
    EXPECT_FALSE(axis.sentence.empty()) << axis.name;
    for (const AxisValue& value : axis.values) {
      EXPECT_FALSE(value.sentence.empty()) << axis.name << " " << value.name;
      const std::string text = axis.integer ? "5" : value.name == "gqa:G" ? "gqa:3" : value.name;
      Variant variant;
      axis.set(variant, text);
      EXPECT_EQ(axis.get(variant), text) << axis.name;
    }
  }
}

TEST(Registry, RefusesWhatIsNotAllowedAndSaysWhatIs) {
  EXPECT_THAT(refusal("cache", "ring"), AllOf(HasSubstr("cache 'ring'"), HasSubstr("none, contiguous, paged, qkv")));
  EXPECT_THAT(refusal("attention", ""), HasSubstr("naive, fused"));
  EXPECT_THAT(refusal("heads", "gqa:0"), HasSubstr("from 1"));
  EXPECT_THAT(refusal("heads", "gqa:"), HasSubstr("from 1"));
  for (const char* value : {"0", "-1", "1.5", "16x", "", "99999999999999999999", "nan"}) {
    EXPECT_THAT(refusal("page_size", value), HasSubstr("whole numbers from 1")) << value;
  }
  EXPECT_EQ(refusal("prefill_chunk", "0"), "accepted");
  EXPECT_THROW(find_axis("pagesize"), InputError);
}

TEST(Registry, AttentionSetsBothPhasesAndNamesThePairing) {
  Variant variant;
  find_axis("attention").set(variant, "naive");
  EXPECT_EQ(find_axis("decode_attention").get(variant), "naive");
  find_axis("prefill_attention").set(variant, "fused");
  EXPECT_EQ(find_axis("attention").get(variant), "fused+naive");
}

TEST(Registry, HeadsFitTheModelOrAreRefused) {
  Variant variant;
  const auto resolved = [&](const char* heads, std::int64_t n_heads, std::int64_t n_kv_heads) {
    find_axis("heads").set(variant, heads);
    return resolve_kv_heads(variant, n_heads, n_kv_heads);
  };
  EXPECT_EQ(resolved("model", 9, 3), 3);
  EXPECT_EQ(resolved("mha", 9, 3), 9);
  EXPECT_EQ(resolved("mqa", 9, 3), 1);
  EXPECT_EQ(resolved("gqa:16", 32, 8), 16);
  EXPECT_EQ(resolved("gqa:2", 32, 8), 2);
  EXPECT_THROW(resolved("gqa:5", 9, 3), InputError);   // does not divide 9
  EXPECT_THROW(resolved("gqa:4", 12, 6), InputError);  // neither a multiple nor a divisor of 6
}

TEST(SpecS21, EveryVariantHoldsTheProductAndEachOtherValueAlone) {
  const std::vector<Variant> all = every_variant(Variant(), 9, 3);
  std::set<std::string> labels;
  for (const Variant& variant : all) labels.insert(variant_label(variant));
  EXPECT_EQ(labels.size(), all.size()) << "two variants share a label";
  std::size_t in_product = 0;
  for (const char* cache : {"none", "contiguous", "paged", "qkv"}) {
    for (const char* attention : {"naive", "naive+fused", "fused+naive", "fused"}) {
      for (const char* heads : {"model", "mha"}) {
        in_product += labels.count(std::string(cache) + " " + attention + " " + heads);
      }
    }
  }
  EXPECT_EQ(in_product, 32U);
  for (const char* alone : {"logits=all", "prune=last_layer", "projection=separate", "page_size=1", "prefill_chunk=7",
                            "weight_dtype=bf16", "kv_dtype=bf16", "execution=graph"}) {
    const auto found = std::count_if(all.begin(), all.end(), [&](const Variant& variant) {
      return variant_label(variant).ends_with(std::string(" ") + alone);
    });
    EXPECT_EQ(found, 1) << alone;
  }
  EXPECT_TRUE(labels.contains("contiguous fused mqa"));
}

}  // namespace
}  // namespace kvlab
