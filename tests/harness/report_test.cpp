// The report: one list of fields, strict JSON, and cases that survive the round trip.
#include "harness/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "kernels/error.h"
#include "tests/harness/made_up_results.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using made_up::read_file;
using made_up::row;
using made_up::source;
using made_up::whole_report;
using nlohmann::json;
using nlohmann::ordered_json;

/// Paths of all leaves as the list writes them.
void collect(const ordered_json& node, const std::string& path, const std::set<std::string>& known,
             std::set<std::string>& found) {
  if (known.count(path) > 0 || !node.is_structured()) {
    found.insert(path);
    return;
  }
  for (const auto& item : node.items()) {
    const std::string step = node.is_array() ? path + "[]" : (path.empty() ? item.key() : path + "." + item.key());
    collect(item.value(), step, known, found);
  }
}

TEST(ReportFields, ListAndReportHoldTheSamePaths) {
  std::set<std::string> listed;
  for (const Field& field : report_fields()) {
    EXPECT_TRUE(listed.insert(field.path).second) << field.path << " is listed twice";
    EXPECT_FALSE(field.sentence.empty()) << field.path;
  }
  std::set<std::string> found;
  collect(whole_report(), "", listed, found);
  EXPECT_EQ(found, listed);
}

TEST(ReportFields, CommittedPageIsTheList) {
  const std::filesystem::path page = source("docs/report.md");
  if (std::getenv("KVLAB_WRITE_DOCS") != nullptr) std::ofstream(page) << report_fields_markdown();
  EXPECT_EQ(read_file(page), report_fields_markdown()) << "run scripts/make_report_docs.sh";
}

TEST(StrictJson, NanBecomesNullAndTheFileIsWhole) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "kvlab_report_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "report.json").string();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  write_json_file(path, {{"nan", nan}, {"inf", 1 / 0.0}, {"text", "cut \xE2\x82"}, {"count", std::int64_t{1} << 62}});
  const json back = json::parse(read_file(path));
  EXPECT_TRUE(back["nan"].is_null());
  EXPECT_TRUE(back["inf"].is_null());
  EXPECT_EQ(back["text"], "cut \xEF\xBF\xBD");
  EXPECT_EQ(back["count"], std::int64_t{1} << 62);

  write_json_file(path, {{"second", 2}});
  EXPECT_EQ(json::parse(read_file(path)), json({{"second", 2}}));
  const auto n_files = std::distance(std::filesystem::directory_iterator(folder), {});
  EXPECT_EQ(n_files, 1) << "no temporary file stays";
  std::filesystem::remove_all(folder);
}

TEST(StrictJson, UnwritablePathIsNamed) {
  try {
    write_json_file("/nonexistent/report.json", {});
    FAIL() << "it was written";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nonexistent/report.json"));
  }
}

TEST(CaseJson, RoundTrip) {
  Case spec;
  spec.model = "models/x.gguf";
  spec.variant.cache = CacheKind::paged;
  spec.variant.prefill_attention = AttentionKind::naive;
  spec.variant.heads = HeadsKind::gqa;
  spec.variant.gqa_kv_heads = 4;
  spec.variant.page_size = 7;
  spec.variant.kv_dtype = DType::bf16;
  spec.variant.prune = PruneKind::last_layer;
  spec.workload = {3, 11, 17, 19, KvFill::random};
  spec.threads = 2;
  spec.seed = 0xfedcba9876543210U;
  EXPECT_EQ(case_from_json(json::parse(case_json(spec).dump())), spec);
}

TEST(CaseJson, RefusesUnknownKeysAndWrongTypes) {
  const json good = json::parse(case_json({}).dump());
  const std::vector<std::pair<std::string, json>> changes = {{"/colour", "red"},
                                                             {"/variant/colour", "red"},
                                                             {"/variant/cache", "big"},
                                                             {"/variant/page_size", "16"},
                                                             {"/workload/batch", 1.5},
                                                             {"/workload/kv_fill", "zeros"},
                                                             {"/seed", -1}};
  for (const auto& [pointer, value] : changes) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    EXPECT_THROW(case_from_json(bad), InputError) << pointer;
  }
}

TEST(Sha256, OfIdsAsLittleEndianInt32) {
  // sha256sum of no bytes, and of 05 00 00 00 01 02 00 00 ff ff ff ff.
  EXPECT_EQ(ids_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ids_sha256({{5, 513}, {-1}}), "79b765c0fcf08ad92abac4c2225b7b0c12921aa6195819343fed18cc848e4b0a");
  EXPECT_EQ(ids_sha256({{5}, {513, -1}}), ids_sha256({{5, 513, -1}}));
}

TEST(ReportTable, ALinePerCaseAndTheReasons) {
  const std::string table = report_table(whole_report());
  EXPECT_THAT(table, ::testing::HasSubstr("contiguous fused model"));
  EXPECT_THAT(table, ::testing::HasSubstr("oom: a reason"));
  EXPECT_THAT(table, ::testing::HasSubstr("invalid: a time is not positive: ttft_s holds -1"));
  EXPECT_THAT(table, ::testing::HasSubstr("ceilings: read 30.0 GB/s"));
}

}  // namespace
}  // namespace kvlab
