// The published schema takes every report that we write, and little else.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wrestrict"  // GCC bug 105651: g++ 12 sees an overlap in valijson's strings
#endif

#include <gtest/gtest.h>

#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/report.h"
#include "tests/harness/made_up_results.h"

namespace kvlab {
namespace {

using made_up::read_file;
using made_up::source;
using made_up::whole_report;
using nlohmann::json;
using nlohmann::ordered_json;

/// What the schema has against a document; "" for nothing.
std::string violations(const json& document) {
  const json schema_json = json::parse(read_file(source("results/report.schema.json")));
  valijson::Schema schema;
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_json), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) return "";
  std::string text;
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    for (const std::string& step : error.context) text += step;
    text += ": " + error.description + "\n";
  }
  return text;
}

TEST(ReportSchema, TakesEveryStatus) { EXPECT_EQ(violations(json::parse(whole_report().dump())), ""); }

TEST(ReportSchema, TakesAReportWithoutCeilings) {
  const ordered_json lone = result_json(made_up::ok_result(), testing_shapes::toy(), std::nullopt);
  const ordered_json report = report_json({lone}, std::nullopt, environment_json({}, 1), "run", nullptr);
  EXPECT_EQ(violations(json::parse(report.dump())), "");
  EXPECT_TRUE(lone["metrics"]["prefill"]["mfu"].is_null());
  EXPECT_TRUE(lone["metrics"]["decode"]["mbu"].is_null());
}

TEST(ReportSchema, RefusesWhatDoesNotBelong) {
  const json good = json::parse(whole_report().dump());
  const std::vector<std::pair<std::string, json>> changes = {
      {"/schema", "kvlab.report/2"},        {"/results/0/status", "done"},
      {"/results/0/reason", "ok with one"}, {"/results/2/reason", nullptr},
      {"/results/0/metrics/extra", 1},      {"/results/0/case/variant/page_size", "16"},
      {"/results/0/samples/ttft_s/0", -1},  {"/results/0/metrics/work/gemm_flops", 1.5}};
  for (const auto& [pointer, value] : changes) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    EXPECT_NE(violations(bad), "") << pointer;
  }
  json without = good;
  without["results"][0]["metrics"]["decode"].erase("mbu");
  EXPECT_NE(violations(without), "");
}

}  // namespace
}  // namespace kvlab
