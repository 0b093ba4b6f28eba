// Synthetic weights: the same bits anywhere, and activations that stay in range for every family.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/reference_forward.h"
#include "tests/model/golden_models.h"

namespace kvlab::testing {
namespace {

TEST(Synthetic, AnElementDependsOnSeedRoleLayerAndIndexAlone) {
  ModelConfig config = small_config();
  const HostMatrix up = make_synthetic_weights(config, 5)->read(WeightRole::up, 1);
  EXPECT_EQ(make_synthetic_weights(config, 5)->read(WeightRole::up, 1).values, up.values);
  EXPECT_NE(make_synthetic_weights(config, 6)->read(WeightRole::up, 1).values, up.values);
  EXPECT_NE(make_synthetic_weights(config, 5)->read(WeightRole::up, 0).values, up.values);
  EXPECT_NE(make_synthetic_weights(config, 5)->read(WeightRole::gate, 1).values, up.values);
  config.ffn_hidden *= 2;  // more rows: the first ones stay
  const HostMatrix taller = make_synthetic_weights(config, 5)->read(WeightRole::up, 1);
  EXPECT_TRUE(std::equal(up.values.begin(), up.values.end(), taller.values.begin()));
}

TEST(Synthetic, DrawsHaveTheMomentsTheyAreMeantToHave) {
  const ModelConfig config = small_config();
  const HostMatrix embedding = make_synthetic_weights(config, 2)->read(WeightRole::token_embedding, 0);
  double sum = 0;
  double squares = 0;
  for (const float value : embedding.values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto n = static_cast<double>(embedding.values.size());
  // Four standard errors of a mean and of a variance over n draws of deviation 1.
  EXPECT_TRUE(std::abs(sum / n) <= 4 / std::sqrt(n)) << sum / n;
  EXPECT_TRUE(std::abs(squares / n - 1) <= 4 * std::sqrt(2 / n)) << squares / n;
}

TEST(Synthetic, ActivationsStayInRangeAndLogitsHaveAClearFirstChoice) {
  std::vector<ModelConfig> configs(3, small_config());
  for (ModelConfig& config : configs) config.n_layers = 12;
  configs[1].tied_embedding = true;
  configs[2].family = Family::gpt2;
  configs[2].architecture = "gpt2";
  configs[2].n_kv_heads = configs[2].n_heads;
  configs[2].tied_embedding = true;
  for (const ModelConfig& config : configs) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 24; ++i) ids.push_back(i * 37 % 97);
    const std::vector<double> logits = reference_logits(*make_synthetic_weights(config, 1), ids, 24, DType::f32);
    const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
    EXPECT_TRUE(*most < 100 && *least > -100) << config.architecture << ": " << *least << " to " << *most;
    EXPECT_TRUE(*most - *least > 4) << config.architecture << ": logits are nearly flat";
  }
}

}  // namespace
}  // namespace kvlab::testing
