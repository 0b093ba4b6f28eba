// Gathers families of cases, fits each, and lays a fit out as JSON and as text.
#include "harness/scaling_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/quantities.h"
#include "harness/text_table.h"
#include "variants/registry.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

struct Member {
  std::int64_t length;
  double prefill_s;
  double attention_share;
};

struct CaseFamily {
  ordered_json spec;  // the case without its prompt length
  std::vector<Member> members;
};

ordered_json family_of(ordered_json spec) {
  spec["workload"].erase("prompt_tokens");
  return spec;
}

std::vector<CaseFamily> families_of(const std::vector<ordered_json>& results) {
  std::vector<CaseFamily> families;
  for (const ordered_json& row : results) {
    if (row["status"] != "ok") continue;
    const ordered_json spec = family_of(row["case"]);
    auto known = std::find_if(families.begin(), families.end(), [&](const CaseFamily& f) { return f.spec == spec; });
    if (known == families.end()) known = families.insert(known, CaseFamily{spec, {}});
    known->members.push_back({row["case"]["workload"]["prompt_tokens"].get<std::int64_t>(),
                              median(row["samples"]["prefill_s"].get<std::vector<double>>()),
                              row["metrics"]["prefill"]["attention_share"].get<double>()});
  }
  for (CaseFamily& family : families) {
    std::sort(family.members.begin(), family.members.end(),
              [](const Member& a, const Member& b) { return a.length < b.length; });
  }
  return families;
}

std::vector<double> quadratic_shares(const ScalingFit& scaling) {
  std::vector<double> shares;
  for (const std::int64_t length : scaling.lengths) {
    shares.push_back(scaling.fit.quadratic_share(static_cast<double>(length)));
  }
  return shares;
}

void add_coefficient(std::vector<FieldOf<ScalingFit>>& list, const std::string& name, const char* unit,
                     const std::string& sentence, Estimate QuadraticFit::*coefficient) {
  const auto put = [&](const char* part, const std::string& text, double Estimate::*member) {
    list.push_back({{fmt::format("fits[].{}.{}", name, part), unit, FieldSource::derived, text},
                    [coefficient, member](const ScalingFit& s) { return ordered_json((s.fit.*coefficient).*member); }});
  };
  put("value", sentence, &Estimate::value);
  put("low", "Lower end of its 95 % interval.", &Estimate::low);
  put("high", "Upper end of its 95 % interval.", &Estimate::high);
}

std::string interval_text(const ordered_json& estimate, double scale, const char* unit) {
  return fmt::format("{:.4g} {} ({:.4g} to {:.4g})", estimate["value"].get<double>() * scale, unit,
                     estimate["low"].get<double>() * scale, estimate["high"].get<double>() * scale);
}

std::vector<std::string> line_of(const std::string& heading, const ordered_json& numbers, double scale, int decimals) {
  std::vector<std::string> line = {heading};
  for (const ordered_json& number : numbers) {
    line.push_back(fmt::format("{:.{}f}", number.get<double>() * scale, decimals));
  }
  return line;
}

}  // namespace

std::vector<ScalingFit> scaling_fits(const std::vector<ordered_json>& results) {
  std::vector<ScalingFit> fits;
  for (const CaseFamily& family : families_of(results)) {
    ScalingFit scaling;
    std::vector<TimedLength> points;
    for (const Member& member : family.members) {
      points.push_back({static_cast<double>(member.length), member.prefill_s});
      scaling.lengths.push_back(member.length);
      scaling.prefill_s.push_back(member.prefill_s);
      scaling.attention_share.push_back(member.attention_share);
    }
    const std::optional<QuadraticFit> fit = fit_quadratic(points);
    if (!fit) continue;
    scaling.family = family.spec;
    scaling.fit = *fit;
    fits.push_back(std::move(scaling));
  }
  return fits;
}

const std::vector<FieldOf<ScalingFit>>& fit_fields() {
  static const std::vector<FieldOf<ScalingFit>> list = [] {
    using S = ScalingFit;
    using enum FieldSource;
    std::vector<FieldOf<S>> fields;
    const auto put = [&](const char* name, const char* unit, FieldSource source, const char* sentence, auto getter) {
      fields.push_back({{std::string("fits[].") + name, unit, source, sentence}, getter});
    };
    put("case", "", configured, "What the cases of this fit share: a case without prompt_tokens.",
        [](const S& s) { return s.family; });
    put("prompt_tokens", "tokens", configured, "[lengths] Prompt lengths n, ascending; at least four.",
        [](const S& s) { return ordered_json(s.lengths); });
    put("prefill_s", "s", derived, "[lengths] Median of samples.prefill_s.",
        [](const S& s) { return ordered_json(s.prefill_s); });
    put("fitted_s", "s", derived, "[lengths] a + b n + c n^2.",
        [](const S& s) { return ordered_json(s.fit.fitted_s); });
    add_coefficient(fields, "a_s", "s", "Constant part of the prefill time (docs/measuring.md).", &QuadraticFit::a_s);
    add_coefficient(fields, "b_s_per_token", "s/token", "Part of the prefill time that grows with n.",
                    &QuadraticFit::b_s_per_token);
    add_coefficient(fields, "c_s_per_token2", "s/token^2", "Part of the prefill time that grows with n^2: attention.",
                    &QuadraticFit::c_s_per_token2);
    put("relative_error", "1", derived, "Standard deviation of (time - fit) / time.",
        [](const S& s) { return ordered_json(s.fit.relative_error); });
    put("quadratic_share", "1", derived, "[lengths] c n^2 over the fitted time.",
        [](const S& s) { return ordered_json(quadratic_shares(s)); });
    put("attention_share", "1", derived, "[lengths] Attention's share of the FLOPs of the prefill.",
        [](const S& s) { return ordered_json(s.attention_share); });
    return fields;
  }();
  return list;
}

ordered_json fits_json(const std::vector<ordered_json>& results) {
  ordered_json list = ordered_json::array();
  for (const ScalingFit& fit : scaling_fits(results)) list.push_back(object_of_fields(fit_fields(), "fits[].", fit));
  return list;
}

std::string fit_text(const ordered_json& fit) {
  const Case spec = case_from_json(fit["case"]);
  std::vector<std::string> lengths = {"  prompt tokens"};
  for (const ordered_json& length : fit["prompt_tokens"]) lengths.push_back(grouped(length.get<std::int64_t>()));
  const std::string heading =
      fmt::format("prefill of n tokens takes a + b n + c n^2 ({}, {}; 95 % intervals)\n  a = {}\n  b = {}\n  c = {}\n",
                  std::filesystem::path(spec.model).filename().string(), variant_label(spec.variant),
                  interval_text(fit["a_s"], 1e3, "ms"), interval_text(fit["b_s_per_token"], 1e6, "us/token"),
                  interval_text(fit["c_s_per_token2"], 1e9, "ns/token^2"));
  return heading + aligned({lengths, line_of("  measured, ms", fit["prefill_s"], 1e3, 2),
                            line_of("  fitted, ms", fit["fitted_s"], 1e3, 2),
                            line_of("  c n^2, % of the time", fit["quadratic_share"], 100, 1),
                            line_of("  attention, % of the FLOPs", fit["attention_share"], 100, 1)},
                           1);
}

}  // namespace kvlab
