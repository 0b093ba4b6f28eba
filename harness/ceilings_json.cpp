// One list of members serves all.
#include "harness/ceilings_json.h"

#include <algorithm>
#include <array>

namespace kvlab {

namespace {

struct Member {
  const char* pointer;
  double Ceilings::*value;
  bool is_time = false;  // the shorter one is the better
  bool always = true;    // every version wrote it
};
constexpr std::array<Member, 12> kMembers = {{{"/read_bytes_per_s", &Ceilings::read_bytes_per_s},
                                              {"/copy_bytes_per_s", &Ceilings::copy_bytes_per_s},
                                              {"/gemm_flops_per_s/f32", &Ceilings::gemm_flops_per_s_f32},
                                              {"/gemm_flops_per_s/bf16", &Ceilings::gemm_flops_per_s_bf16},
                                              {"/write_bytes_per_s", &Ceilings::write_bytes_per_s, false, false},
                                              {"/fork_join_s", &Ceilings::fork_join_s, true, false},
                                              {"/barrier_s", &Ceilings::barrier_s, true, false},
                                              {"/harness_overhead_s", &Ceilings::harness_overhead_s, true, false},
                                              {"/launch_s", &Ceilings::launch_s, true, false},
                                              {"/graph_launch_s", &Ceilings::graph_launch_s, true, false},
                                              {"/event_s", &Ceilings::event_s, true, false},
                                              {"/launch_round_trip_s", &Ceilings::launch_round_trip_s, true, false}}};

/// 0 stands for what was not measured.
double better(const Member& member, double a, double b) {
  return member.is_time && a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

}  // namespace

nlohmann::ordered_json ceilings_json(const Ceilings& ceilings) {
  nlohmann::ordered_json json;
  for (const Member& member : kMembers) {
    json[nlohmann::ordered_json::json_pointer(member.pointer)] = ceilings.*member.value;
  }
  return json;
}

Ceilings ceilings_from_json(const nlohmann::json& json) {
  Ceilings ceilings;
  for (const Member& member : kMembers) {
    const nlohmann::json::json_pointer pointer(member.pointer);
    if (member.always || json.contains(pointer)) json.at(pointer).get_to(ceilings.*member.value);
  }
  return ceilings;
}

Ceilings higher_ceilings(const Ceilings& a, const Ceilings& b) {
  Ceilings higher;
  for (const Member& member : kMembers) {
    higher.*member.value = better(member, a.*member.value, b.*member.value);
  }
  return higher;
}

}  // namespace kvlab
