// An operation of the CPU backend as a recorded graph runs it: prepared by one thread, computed by lanes of a region
// that somebody else opened.
#pragma once

#include <utility>

#include "kernels/cpu/share.h"
#include "kernels/views.h"

namespace kvlab::cpu {

/// Lanes of a task's two stages. The second starts when the first is complete; 0: there is none this time.
struct Lanes {
  int first = 1;
  int second = 0;
  bool operator==(const Lanes&) const = default;
};

class Task {
 public:
  virtual ~Task() = default;
  /// Before each run, by one thread outside any region: reads what this step's lengths change, takes scratch, throws
  /// what there is to throw. Says how many lanes share the work.
  virtual Lanes prepare() = 0;
  /// Computes one lane of a stage (0 or 1). Does not throw.
  virtual void run(int stage, Share share) = 0;
};

/// A task of one stage whose lanes do not depend on lengths.
template <class Part>
class FixedTask final : public Task {
 public:
  FixedTask(int n_lanes, Part part) : n_lanes_(n_lanes), part_(std::move(part)) {}
  Lanes prepare() override { return {n_lanes_, 0}; }
  void run(int /*stage*/, Share share) override { part_(share); }

 private:
  int n_lanes_;
  Part part_;
};

/// An attention, which counts what it executes.
class AttentionTask : public Task {
 public:
  /// Of the last run.
  virtual AttentionWork work() const = 0;
};

}  // namespace kvlab::cpu
