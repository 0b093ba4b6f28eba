#include "harness/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/statistics.h"
#include "harness/text_table.h"

namespace kvlab {
namespace {

using nlohmann::ordered_json;

/// Where the function's arguments begin, the return type ends and the last namespace ends, outside of template
/// arguments.
struct NameParts {
  std::size_t begin = 0;
  std::size_t end;
};

NameParts function_name(const std::string& text) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  NameParts parts{0, text.size()};
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, kAnonymous.size(), kAnonymous) == 0) {
      i += kAnonymous.size() - 1;
      continue;
    }
    const char c = text[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth > 0) continue;
    if (c == '(') {
      parts.end = i;
      break;
    }
    if (c == ' ' || (c == ':' && i > 0 && text[i - 1] == ':')) parts.begin = i + 1;
  }
  return parts;
}

double seconds(const cuda::KernelRecord& record) { return 1e-9 * static_cast<double>(record.end_ns - record.start_ns); }

}  // namespace

std::string kernel_label(const std::string& demangled) {
  const NameParts parts = function_name(demangled);
  std::string label = demangled.substr(parts.begin, parts.end - parts.begin);
  for (const std::string& ours : {std::string("kvlab::cuda::"), std::string("kvlab::")}) {
    for (std::size_t at = label.find(ours); at != std::string::npos; at = label.find(ours)) {
      label.erase(at, ours.size());
    }
  }
  return label;
}

KernelTimes kernel_times(std::span<const TracedPass> passes) {
  KernelTimes times;
  std::map<std::string, std::vector<double>> by_kernel;  // seconds of each execution
  for (const TracedPass& pass : passes) {
    times.pass_s += pass.pass_s;
    for (const cuda::KernelRecord& record : pass.kernels) {
      by_kernel[kernel_label(record.name)].push_back(seconds(record));
      times.kernel_s += seconds(record);
      ++times.n_kernels;
    }
  }
  for (const auto& [kernel, each_s] : by_kernel) {
    KernelRow row;
    row.kernel = kernel;
    row.count = static_cast<std::int64_t>(each_s.size());
    for (const double one_s : each_s) row.total_s += one_s;
    row.share = times.kernel_s > 0 ? row.total_s / times.kernel_s : 0;
    row.median_s = median(each_s);
    times.rows.push_back(row);
  }
  std::stable_sort(times.rows.begin(), times.rows.end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.total_s > b.total_s; });
  times.gaps = times.pass_s > 0 ? 1 - times.kernel_s / times.pass_s : 0;
  return times;
}

std::string kernel_times_text(const std::string& title, const KernelTimes& times) {
  std::vector<std::vector<std::string>> lines = {{"kernel", "count", "total ms", "share %", "median us"}};
  for (const KernelRow& row : times.rows) {
    lines.push_back({row.kernel, std::to_string(row.count), fmt::format("{:.3f}", row.total_s * 1e3),
                     fmt::format("{:.1f}", row.share * 100), fmt::format("{:.2f}", row.median_s * 1e6)});
  }
  return fmt::format("{}: {} kernels, {:.3f} ms of {:.3f} ms, gaps {:.1f} %\n{}", title, times.n_kernels,
                     times.kernel_s * 1e3, times.pass_s * 1e3, times.gaps * 100, aligned(lines, 1));
}

ordered_json kernel_times_json(const KernelTimes& times) {
  auto rows = ordered_json::array();
  for (const KernelRow& row : times.rows) {
    rows.push_back({{"kernel", row.kernel},
                    {"count", row.count},
                    {"total_s", row.total_s},
                    {"share", row.share},
                    {"median_s", row.median_s}});
  }
  return {{"kernels", rows},
          {"n_kernels", times.n_kernels},
          {"kernel_s", times.kernel_s},
          {"pass_s", times.pass_s},
          {"gaps", times.gaps}};
}

}  // namespace kvlab
