// One list of members serves all.
#include "harness/ceilings_json.h"

#include <algorithm>
#include <array>

namespace kvlab {

namespace {

struct Member {
  const char* pointer;
  double Ceilings::*value;
};
constexpr std::array<Member, 4> kMembers = {{{"/read_bytes_per_s", &Ceilings::read_bytes_per_s},
                                             {"/copy_bytes_per_s", &Ceilings::copy_bytes_per_s},
                                             {"/gemm_flops_per_s/f32", &Ceilings::gemm_flops_per_s_f32},
                                             {"/gemm_flops_per_s/bf16", &Ceilings::gemm_flops_per_s_bf16}}};

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
    json.at(nlohmann::json::json_pointer(member.pointer)).get_to(ceilings.*member.value);
  }
  return ceilings;
}

Ceilings higher_ceilings(const Ceilings& a, const Ceilings& b) {
  Ceilings higher;
  for (const Member& member : kMembers) higher.*member.value = std::max(a.*member.value, b.*member.value);
  return higher;
}

}  // namespace kvlab
