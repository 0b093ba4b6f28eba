// What each weight role is called, which models have it and what shape it has. Reading values is the sources' business.
#include "model/weight_source.h"

#include <array>

namespace kvlab {
namespace {

struct RoleFact {
  WeightRole role;
  std::string_view name;
  bool per_layer;
};

constexpr std::array kRoleFacts = {
    RoleFact{WeightRole::token_embedding, "token_embedding", false},
    RoleFact{WeightRole::position_embedding, "position_embedding", false},
    RoleFact{WeightRole::attention_norm, "attention_norm", true},
    RoleFact{WeightRole::attention_norm_bias, "attention_norm_bias", true},
    RoleFact{WeightRole::q, "q", true},
    RoleFact{WeightRole::k, "k", true},
    RoleFact{WeightRole::v, "v", true},
    RoleFact{WeightRole::q_bias, "q_bias", true},
    RoleFact{WeightRole::k_bias, "k_bias", true},
    RoleFact{WeightRole::v_bias, "v_bias", true},
    RoleFact{WeightRole::q_norm, "q_norm", true},
    RoleFact{WeightRole::k_norm, "k_norm", true},
    RoleFact{WeightRole::attention_output, "attention_output", true},
    RoleFact{WeightRole::attention_output_bias, "attention_output_bias", true},
    RoleFact{WeightRole::mlp_norm, "mlp_norm", true},
    RoleFact{WeightRole::mlp_norm_bias, "mlp_norm_bias", true},
    RoleFact{WeightRole::gate, "gate", true},
    RoleFact{WeightRole::up, "up", true},
    RoleFact{WeightRole::up_bias, "up_bias", true},
    RoleFact{WeightRole::down, "down", true},
    RoleFact{WeightRole::down_bias, "down_bias", true},
    RoleFact{WeightRole::final_norm, "final_norm", false},
    RoleFact{WeightRole::final_norm_bias, "final_norm_bias", false},
    RoleFact{WeightRole::lm_head, "lm_head", false},
};

constexpr auto kRoles = [] {
  std::array<WeightRole, kRoleFacts.size()> roles{};
  for (std::size_t i = 0; i < roles.size(); ++i) roles[i] = kRoleFacts[i].role;
  return roles;
}();

// The list stands in the order of the enumeration, so that a role is its own index.
constexpr bool listed_in_order() {
  for (std::size_t i = 0; i < kRoleFacts.size(); ++i) {
    if (static_cast<std::size_t>(kRoleFacts[i].role) != i) return false;
  }
  return static_cast<std::size_t>(WeightRole::lm_head) + 1 == kRoleFacts.size();
}
static_assert(listed_in_order());

const RoleFact& fact(WeightRole role) { return kRoleFacts[static_cast<std::size_t>(role)]; }

}  // namespace

std::span<const WeightRole> all_weight_roles() { return kRoles; }

std::string_view role_name(WeightRole role) { return fact(role).name; }

bool is_layer_role(WeightRole role) { return fact(role).per_layer; }

bool has_role(const ModelConfig& config, WeightRole role) {
  const bool gpt2 = config.family == Family::gpt2;
  switch (role) {
    case WeightRole::position_embedding:
    case WeightRole::attention_norm_bias:
    case WeightRole::mlp_norm_bias:
    case WeightRole::up_bias:
    case WeightRole::down_bias:
    case WeightRole::final_norm_bias:
      return gpt2;
    case WeightRole::q_bias:
    case WeightRole::k_bias:
    case WeightRole::v_bias:
      return gpt2 || config.qkv_bias;
    case WeightRole::attention_output_bias:
      return gpt2 || config.attention_output_bias;
    case WeightRole::q_norm:
    case WeightRole::k_norm:
      return config.qk_norm;
    case WeightRole::gate:
      return !gpt2;
    case WeightRole::lm_head:
      return !config.tied_embedding;
    default:
      return true;
  }
}

RoleShape role_shape(const ModelConfig& config, WeightRole role) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t q_rows = config.n_heads * config.head_dim;
  const std::int64_t kv_rows = config.n_kv_heads * config.head_dim;
  switch (role) {
    case WeightRole::token_embedding:
    case WeightRole::lm_head:
      return {config.vocab_size, hidden};
    case WeightRole::position_embedding:
      return {config.context_length, hidden};
    case WeightRole::q:
      return {q_rows, hidden};
    case WeightRole::k:
    case WeightRole::v:
      return {kv_rows, hidden};
    case WeightRole::q_bias:
      return {1, q_rows};
    case WeightRole::k_bias:
    case WeightRole::v_bias:
      return {1, kv_rows};
    case WeightRole::q_norm:
    case WeightRole::k_norm:
      return {1, config.head_dim};
    case WeightRole::attention_output:
      return {hidden, q_rows};
    case WeightRole::gate:
    case WeightRole::up:
      return {config.ffn_hidden, hidden};
    case WeightRole::up_bias:
      return {1, config.ffn_hidden};
    case WeightRole::down:
      return {hidden, config.ffn_hidden};
    case WeightRole::attention_norm:
    case WeightRole::attention_norm_bias:
    case WeightRole::attention_output_bias:
    case WeightRole::mlp_norm:
    case WeightRole::mlp_norm_bias:
    case WeightRole::down_bias:
    case WeightRole::final_norm:
    case WeightRole::final_norm_bias:
      break;
  }
  return {1, hidden};
}

}  // namespace kvlab
