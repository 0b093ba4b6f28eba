// `--profile`: the passes of a round that a profiler should record, and what tells it so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/round.h"
#include "kernels/operations.h"
#include "model/profiler_range.h"

namespace kvlab {

/// Passes first to last, both included: pass 0 is the prefill, pass i decode step i.
struct ProfileWindow {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const ProfileWindow&) const = default;
};

/// "prefill", or "decode:A..B" with 1 <= A <= B. Throws InputError with the allowed forms.
ProfileWindow parse_profile_window(std::string_view text);
/// Throws InputError when the window reaches beyond the decode steps of a round, gen_tokens - 1 of them.
void check_profile_window(const ProfileWindow& window, std::int64_t gen_tokens);
/// "the prefill", "decode steps 10 to 20".
std::string profile_window_text(const ProfileWindow& window);

/// Opens the window before its first pass and closes it after its last: starts and stops the backend's profiler, and
/// holds the NVTX range "profile" meanwhile.
class WindowMarker : public PassWatcher {
 public:
  WindowMarker(const ProfileWindow& window, Operations& ops) : window_(window), ops_(ops) {}
  ~WindowMarker() override;
  WindowMarker(const WindowMarker&) = delete;
  WindowMarker& operator=(const WindowMarker&) = delete;

  void before_pass(std::int64_t pass) override;
  void after_pass(std::int64_t pass) override;

 private:
  ProfileWindow window_;
  Operations& ops_;
  std::optional<CaptureRange> range_;  // while the window is open
};

}  // namespace kvlab
