// Faults on request (`sweep --inject-fault`, hidden): how the tests see that a sweep survives what it must survive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.h"

namespace kvlab {

enum class FaultKind { abort, segfault, hang, alloc, nan };

/// Strikes the check of a case, or one of its rounds.
struct Fault {
  FaultKind kind = FaultKind::abort;
  std::optional<std::int64_t> round;  // none: the check
  std::string label;                  // only cases whose `case_label` contains it; "": every case
};

/// "KIND[@ROUND][:LABEL]", KIND abort | segfault | hang | alloc | nan. Throws InputError naming what is allowed.
Fault parse_fault(std::string_view text);

class FaultPlan {
 public:
  FaultPlan() = default;
  explicit FaultPlan(const std::vector<std::string>& texts);

  /// Does what was asked for at this moment: does not return from abort, segfault and hang; throws OutOfMemory for
  /// alloc. Returns whether the logits shall become NaN.
  bool strike(const Case& spec, std::optional<std::int64_t> round) const;

 private:
  std::vector<Fault> faults_;
};

}  // namespace kvlab
