// Counting that both attentions share.
#include "kernels/cpu/attention.h"

namespace kvlab::cpu {

void AttentionCall::start_counting(int n_lanes) {
  next_item_ = 0;
  lane_work_.assign(static_cast<std::size_t>(n_lanes), {});
}

AttentionWork AttentionCall::work() const {
  AttentionWork total;
  for (const AttentionWork& work : lane_work_) total += work;
  return total;
}

}  // namespace kvlab::cpu
