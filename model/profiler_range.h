// Names what runs now for a profiler (NVTX, domain "kvlab"): phases hold layers, layers hold operations, on the CPU as
// well. A few nanoseconds where no profiler listens, so it does not belong into inner loops.
#pragma once

#include <cstdint>
#include <string>

namespace kvlab {

/// A range of the calling thread, from construction to destruction: ranges of a thread nest. Names are literals, of
/// which no copy is kept.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  /// "layer 3"
  ProfilerRange(const char* name, std::int64_t number);
  /// "prefill 128 tokens"
  ProfilerRange(const char* name, std::int64_t number, const char* unit);
  ~ProfilerRange() {
    if (open_) end();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  /// Ends this range and begins the one that follows.
  void next(const char* name);
  /// Without a number.
  const char* name() const { return name_; }

 private:
  static void end();

  const char* name_;
  bool open_ = false;  // a profiler listens
};

/// The range "profile", which marks what a profiler should record: `nsys profile --capture-range=nvtx
/// --nvtx-capture=profile@kvlab`.
class CaptureRange {
 public:
  CaptureRange();
  ~CaptureRange();
  CaptureRange(const CaptureRange&) = delete;
  CaptureRange& operator=(const CaptureRange&) = delete;
};

/// The version of NVTX that the program was built with; "none" where ranges name nothing.
std::string nvtx_version();

}  // namespace kvlab
