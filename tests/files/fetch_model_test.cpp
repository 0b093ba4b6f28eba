// scripts/fetch_model.py without a network: wrong requests, and a file that is already on the machine.
#include <sys/wait.h>

#include <cstdlib>

#include "tests/files/test_files.h"

namespace kvlab::test {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int exit_code;
  std::string text;  // standard output and standard error
};

Outcome fetch_model(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string log = folder.path() + "/log";
  const std::string command = std::string("python3 '") + KVLAB_SOURCE_DIR + "/scripts/fetch_model.py' " + arguments +
                              " --models-dir '" + folder.path() + "/models' > '" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(log)};
}

TEST(FetchModel, AWrongRequestExitsWith2AndWritesNothing) {
  const TemporaryFolder folder;
  const std::string other = folder.write("other.gguf", "GGUF");
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"nonsense", "known: smollm2, gemma3"},
      {"smollm2 --from /nowhere/file.gguf", "/nowhere/file.gguf"},
      {"smollm2 --from '" + other + "'", "4 bytes instead of 98,362,432"},
      {"'" + other + "'", "none of the known files"},
      {"", "required: MODEL"},
      {"smollm2 --unknown", "--unknown"}};
  for (const auto& [arguments, expected] : requests) {
    const Outcome outcome = fetch_model(folder, arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(expected)) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/models")) << arguments;
  }
}

TEST(FetchModel, ALocalFileIsVerifiedAndCopiedOnce) {
  const std::string local = std::string(KVLAB_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(local)) {
    GTEST_SKIP() << local << " is not there; fetch it with: scripts/fetch_model.py smollm2";
  }
  const TemporaryFolder folder;
  EXPECT_EQ(fetch_model(folder, "'" + local + "'").exit_code, 0);
  const std::string stored = folder.path() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_EQ(std::filesystem::file_size(stored), 98'362'432U);
  const Outcome again = fetch_model(folder, "smollm2");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.text, HasSubstr("nothing to do"));
}

}  // namespace
}  // namespace kvlab::test
