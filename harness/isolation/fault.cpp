// Each fault is the real thing: a signal, an endless wait, an allocation that cannot be met.
#include "harness/isolation/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "harness/measurement.h"
#include "harness/numbers.h"
#include "kernels/error.h"
#include "kernels/operations.h"

namespace kvlab {

namespace {

constexpr std::array<std::pair<std::string_view, FaultKind>, 5> kKinds = {{{"abort", FaultKind::abort},
                                                                           {"segfault", FaultKind::segfault},
                                                                           {"hang", FaultKind::hang},
                                                                           {"alloc", FaultKind::alloc},
                                                                           {"nan", FaultKind::nan}}};

FaultKind parse_kind(std::string_view text) {
  std::vector<std::string_view> names;
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
    names.push_back(name);
  }
  throw InputError(
      fmt::format("--inject-fault: there is no fault \"{}\"; allowed are {}", text, fmt::join(names, ", ")));
}

[[noreturn]] void hang() {
  while (true) pause();
}

void allocate_too_much() {
  make_cpu_operations(1)->allocate(std::numeric_limits<std::size_t>::max() / 4, "memory of a fault");
}

}  // namespace

Fault parse_fault(std::string_view text) {
  Fault fault;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) fault.label = text.substr(colon + 1);
  const std::string_view head = text.substr(0, colon);
  const std::size_t at = head.find('@');
  fault.kind = parse_kind(head.substr(0, at));
  if (at != std::string_view::npos) {
    fault.round = parse_integer("--inject-fault", std::string(head.substr(at + 1)), 0, kMaxCount);
  }
  return fault;
}

FaultPlan::FaultPlan(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) faults_.push_back(parse_fault(text));
}

bool FaultPlan::strike(const Case& spec, std::optional<std::int64_t> round) const {
  bool nan = false;
  for (const Fault& fault : faults_) {
    if (fault.round != round || case_label(spec).find(fault.label) == std::string::npos) continue;
    switch (fault.kind) {
      case FaultKind::abort:
        std::abort();
      case FaultKind::segfault:
        std::raise(SIGSEGV);
        break;
      case FaultKind::hang:
        hang();
      case FaultKind::alloc:
        allocate_too_much();
        break;
      case FaultKind::nan:
        nan = true;
        break;
    }
  }
  return nan;
}

}  // namespace kvlab
