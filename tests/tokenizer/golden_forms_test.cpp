// Every form of tokenizer.json against ids of the `tokenizers` package (scripts/make_tokenizer_golden.py).
#include <gtest/gtest.h>

#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/golden_strings.h"

namespace kvlab {
namespace {

class GoldenForms : public testing::TestWithParam<const char*> {};

TEST_P(GoldenForms, DifficultStringsGiveTheGoldenIdsAndComeBack) {
  const std::string folder = std::string("tokenizers/") + GetParam();
  const auto tokenizer = tokenizer_from_folder(golden_path(folder));
  ASSERT_NE(tokenizer, nullptr);
  expect_golden_strings(*tokenizer, read_golden(folder + "/ids.json").at("strings"));
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenForms, testing::Values("gpt2", "smollm", "llama3", "qwen2", "llama2", "gemma"),
                         [](const testing::TestParamInfo<const char*>& form) { return form.param; });

}  // namespace
}  // namespace kvlab
