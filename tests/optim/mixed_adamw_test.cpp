// AdamW in several types: 8-bit moments against bitsandbytes (scripts/golden/adamw_8bit.py), BF16 ones, masters and
// stochastic rounding against what they stand for; resuming, threads, and the same by ATen's operators.
#include "optim/mixed_adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "ops/scalar_type.h"
#include "tests/optim/mixed_run.h"
#include "weights/safetensors.h"

namespace fathom::optim::mixed_adamw_test {
namespace {

using config::MasterWeights;

const AdamWOptions kOptions{0.8, 0.95, 1e-6, 0.1};

std::map<std::string, at::Tensor> golden() {
  const weights::SafetensorsFile file(std::string(FATHOM_SOURCE_DIR) + "/tests/optim/golden/adamw_8bit.safetensors");
  std::map<std::string, at::Tensor> tensors;
  for (const weights::TensorInfo& info : file.tensors()) {
    void* bytes = const_cast<std::byte*>(file.data(info));
    tensors[info.name] =
        at::from_blob(bytes, info.shape, at::TensorOptions().dtype(ops::scalar_type(info.dtype))).clone();
  }
  return tensors;
}

std::map<std::string, at::Tensor> states_of(const Optimizer& optimizer) {
  return {optimizer.state().begin(), optimizer.state().end()};
}

double share(const at::Tensor& mask) { return mask.to(at::kFloat).mean().item<double>(); }

// A sum that is rounded otherwise may take the code beside; the next steps begin with it then.
void expect_codes(const at::Tensor& codes, const at::Tensor& expected, const std::string& what) {
  const at::Tensor difference = (codes.to(at::kInt) - expected.to(at::kInt)).abs();
  EXPECT_LE(difference.max().item<int>(), 1) << what;
  EXPECT_LE(share(difference.gt(0)), 0.002) << what;
}

TEST(AdamW8bit, AgreesWithBitsandbytes) {
  const auto expected = golden();
  std::vector<OptimizedParameter> parameters;
  for (const char* name : {"whole", "ragged", "small", "vector"}) {
    const at::Tensor tensor = expected.at(std::string("initial.") + name).clone().set_requires_grad(true);
    parameters.push_back({name, tensor, tensor.dim() > 1});
  }
  MixedAdamW optimizer(parameters, {kOptions, footprint::MomentStorage::k8bit}, nullptr);
  const auto states = states_of(optimizer);
  for (int64_t step = 0; step < 4; ++step) {
    const std::string number = std::to_string(step);
    for (const OptimizedParameter& parameter : parameters) {
      parameter.tensor.mutable_grad() = expected.at("gradient." + number + "." + parameter.name).to(at::kFloat);
    }
    optimizer.step(expected.at("rates")[step].item<double>());
    if (step != 0 && step != 3) continue;
    for (const auto& [name, tensor, decays, whole] : parameters) {
      const std::string ending = number + "." + name;
      // Updates are about as large as the rate, 1e-2; a neighbouring code is off by a hundredth of that.
      const at::Tensor difference = (tensor - expected.at("parameter." + ending)).abs();
      EXPECT_LE(share(difference.gt(2e-6)), step == 0 ? 0 : 0.005) << ending;
      EXPECT_LE(difference.max().item<double>(), step == 0 ? 2e-6 : 1e-3) << ending;
      for (const std::string moment : {"exp_avg", "exp_avg_sq"}) {
        const at::Tensor &ours = states.at(moment + "." + name), &theirs = expected.at(moment + "." + ending);
        ASSERT_EQ(ours.scalar_type(), theirs.scalar_type()) << ending;
        if (ours.scalar_type() == at::kFloat) {
          EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-6) << moment << ending;
          continue;
        }
        expect_codes(ours, theirs, moment + ending);
        const at::Tensor& scales = expected.at(moment + "_scale." + ending);
        EXPECT_TRUE(states.at(moment + "_scale." + name).allclose(scales, 0.02, 0)) << ending;
      }
    }
  }
}

// Two of more than 4096 elements, no whole blocks, and a small one.
constexpr std::array<int64_t, 3> kElements = {33 * 181, 40 * 131, 77};

struct SmallRun : MixedRun {
  explicit SmallRun(const Kind& kind, bool by_operators = false) {
    at::manual_seed(3);
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{33, 181}, {40, 131}, {77}}) {
      parameters.push_back(at::randn(sizes).to(kind.weights).set_requires_grad(true));
    }
    MixedAdamWOptions options{kOptions, kind.moments, kind.masters, 5, by_operators};
    optimizer = std::make_unique<MixedAdamW>(
        std::vector<OptimizedParameter>{
            {"matrix", parameters[0], true}, {"wide", parameters[1], true}, {"vector", parameters[2], false}},
        options, nullptr);
  }

  void step(int index, const at::Tensor& factor = {}) {
    at::manual_seed(100 + index);
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad() = (at::randn(parameter.sizes()) * 0.1).to(parameter.scalar_type());
    }
    optimizer->step(0.01, factor);
  }
};

class MixedAdamWs : public ::testing::TestWithParam<Kind> {};

TEST_P(MixedAdamWs, ResumeInTheSameBits) {
  SmallRun whole(GetParam()), first(GetParam()), second(GetParam());
  for (int step = 0; step < 5; ++step) whole.step(step);
  for (int step = 0; step < 2; ++step) first.step(step);
  const std::vector<at::Tensor> from = first.everything(), to = second.everything();
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  second.optimizer->set_steps(first.optimizer->steps());
  for (int step = 2; step < 5; ++step) second.step(step);
  const std::vector<at::Tensor> expected = whole.everything(), ends = second.everything();
  for (size_t i = 0; i < ends.size(); ++i) EXPECT_TRUE(ends[i].equal(expected[i])) << i;
}

TEST_P(MixedAdamWs, GiveTheSameBitsForAnyNumberOfThreads) {
  const auto after = [&](int threads) {
    at::set_num_threads(threads);
    at::manual_seed(3);
    const at::Tensor parameter = at::randn({301, 517}).to(GetParam().weights).set_requires_grad(true);
    MixedAdamW optimizer({{"w", parameter, true}}, {kOptions, GetParam().moments, GetParam().masters, 5}, nullptr);
    for (int step = 0; step < 3; ++step) {
      parameter.mutable_grad() = at::randn({301, 517}).to(GetParam().weights);
      optimizer.step(0.01);
    }
    at::set_num_threads(1);
    return parameter;
  };
  EXPECT_TRUE(after(1).equal(after(2)));
}

TEST_P(MixedAdamWs, AgreeWithThemselvesByOperators) {
  for (const at::Tensor& factor : {at::Tensor(), at::scalar_tensor(0.25, at::kFloat)}) {
    SmallRun kernel(GetParam()), operators(GetParam(), true);
    for (int step = 0; step < 4; ++step) {
      kernel.step(step, factor);
      operators.step(step, factor);
    }
    const std::vector<at::Tensor> expected = kernel.everything(), ends = operators.everything();
    for (size_t i = 0; i < ends.size(); ++i) {
      const size_t count = kElements.size();
      const std::string what = i < count ? "parameter" : kernel.optimizer->state()[i - count].first;
      ASSERT_EQ(ends[i].scalar_type(), expected[i].scalar_type());
      if (ends[i].scalar_type() == at::kByte) {
        expect_codes(ends[i], expected[i], what);
        continue;
      }
      // Sums in another order let a few numbers take a neighbour, of BF16 or of a code.
      const at::Tensor a = ends[i].to(at::kFloat), b = expected[i].to(at::kFloat);
      const at::Tensor beyond = (a - b).abs().gt(b.abs() * 1e-5 + 2e-6);
      EXPECT_LE(share(beyond), 0.02) << what;
      EXPECT_TRUE((a - b).abs().le(b.abs() / 64 + 1e-3).all().item<bool>()) << what;
    }
  }
}

// As processes divide them, some of which have nothing of one.
TEST_P(MixedAdamWs, GiveTheSameBitsInShares) {
  constexpr std::array<std::array<int64_t, 4>, 3> kCuts = {
      {{0, 768, 4096, kElements[0]}, {0, 5120, 5120, kElements[1]}, {0, 16, 48, kElements[2]}}};
  for (const bool by_operators : {false, true}) {
    SmallRun whole(GetParam(), by_operators);
    std::vector<MixedRun> ranks(3);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<OptimizedParameter> shares;
      for (size_t i = 0; i < kCuts.size(); ++i) {
        const int64_t first = kCuts[i][rank], n = kCuts[i][rank + 1] - first;
        const at::Tensor share = whole.parameters[i].detach().view({-1}).narrow(0, first, n).clone();
        ranks[rank].parameters.push_back(share);
        shares.push_back({std::to_string(i), share, i < 2, {{static_cast<int64_t>(i), first, kElements[i]}}});
      }
      std::reverse(shares.begin(), shares.end());
      const MixedAdamWOptions options{kOptions, GetParam().moments, GetParam().masters, 5, by_operators};
      ranks[rank].optimizer = std::make_unique<MixedAdamW>(shares, options, nullptr);
    }
    for (int step = 0; step < 4; ++step) {
      whole.step(step);
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        for (size_t i = 0; i < kCuts.size(); ++i) {
          const at::Tensor& share = ranks[rank].parameters[i];
          share.mutable_grad() = whole.parameters[i].grad().view({-1}).narrow(0, kCuts[i][rank], share.numel());
        }
        ranks[rank].optimizer->step(0.01);
      }
    }
    for (size_t i = 0; i < kCuts.size(); ++i) {
      std::vector<at::Tensor> shares;
      for (const MixedRun& rank : ranks) shares.push_back(rank.parameters[i]);
      EXPECT_TRUE(at::cat(shares).equal(whole.parameters[i].detach().view({-1}))) << i << by_operators;
    }
    for (const auto& [name, state] : whole.optimizer->state()) {
      const size_t dot = name.find('.');
      const std::string parameter = name.substr(dot + 1);
      const std::string own = name.substr(0, dot + 1) + (parameter == "matrix" ? "0" : parameter == "wide" ? "1" : "2");
      std::vector<at::Tensor> shares;
      for (const MixedRun& rank : ranks) shares.push_back(states_of(*rank.optimizer).at(own).view({-1}));
      EXPECT_TRUE(at::cat(shares).equal(state.view({-1}))) << name << by_operators;
    }
  }
}

TEST_P(MixedAdamWs, KeepWhatPlansCount) {
  const Kind& kind = GetParam();
  const SmallRun run(kind);
  const int64_t weight_bytes = kind.weights == at::kFloat ? 4 : 2;
  int64_t expected = 0;
  for (const int64_t elements : kElements) {
    expected += 2 * elements * footprint::bytes_of_moment(kind.moments, elements, weight_bytes);
    expected += 2 * 4 * footprint::scales_of_moment(kind.moments, elements);
    if (kind.masters == MasterWeights::kFp32 && weight_bytes == 2) expected += 4 * elements;
  }
  int64_t bytes = 0;
  for (const auto& [name, tensor] : run.optimizer->state()) {
    bytes += static_cast<int64_t>(tensor.nbytes());
    EXPECT_TRUE(tensor.eq(0).all().item<bool>()) << name << " before the first step";
  }
  EXPECT_EQ(bytes, expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, MixedAdamWs,
    ::testing::Values(Kind{"8bit", at::kFloat, footprint::MomentStorage::k8bit, MasterWeights::kNone},
                      Kind{"8bit_bf16", at::kBFloat16, footprint::MomentStorage::k8bit, MasterWeights::kNone},
                      Kind{"8bit_masters", at::kBFloat16, footprint::MomentStorage::k8bit, MasterWeights::kFp32},
                      Kind{"8bit_stochastic", at::kBFloat16, footprint::MomentStorage::k8bit,
                           MasterWeights::kStochastic},
                      Kind{"bf16", at::kFloat, footprint::MomentStorage::kBf16, MasterWeights::kNone},
                      Kind{"bf16_bf16", at::kBFloat16, footprint::MomentStorage::kBf16, MasterWeights::kNone},
                      Kind{"masters", at::kBFloat16, footprint::MomentStorage::kFp32, MasterWeights::kFp32},
                      Kind{"stochastic", at::kBFloat16, footprint::MomentStorage::kBf16, MasterWeights::kStochastic}),
    [](const ::testing::TestParamInfo<Kind>& info) { return std::string(info.param.name); });

// More than one part, and a short block at the end.
TEST(AdamW8bit, HasTheSameCodesByOperatorsInParts) {
  constexpr int64_t kMany = footprint::kUpdatedAtOnce + 3 * quant::kDynamicBlock + 100;
  std::vector<std::map<std::string, at::Tensor>> states;
  for (const bool by_operators : {false, true}) {
    at::manual_seed(1);
    const at::Tensor parameter = at::zeros({kMany}).set_requires_grad(true);
    parameter.mutable_grad() = at::randn({kMany});
    MixedAdamW optimizer({{"w", parameter, false}},
                         {kOptions, footprint::MomentStorage::k8bit, MasterWeights::kNone, 0, by_operators}, nullptr);
    optimizer.step(0.01);
    states.push_back(states_of(optimizer));
  }
  for (const char* moment : {"exp_avg.w", "exp_avg_sq.w"}) expect_codes(states[1][moment], states[0][moment], moment);
  EXPECT_TRUE(states[1]["exp_avg_scale.w"].allclose(states[0]["exp_avg_scale.w"], 1e-6, 0));
}

TEST(AdamW8bit, OfSmallParametersIsAdamW) {
  const at::Tensor ours = at::ones({4095}).set_requires_grad(true), theirs = at::ones({4095}).set_requires_grad(true);
  MixedAdamW mixed({{"w", ours, true}}, {kOptions, footprint::MomentStorage::k8bit}, nullptr);
  AdamW plain({{"w", theirs, true}}, kOptions, nullptr);
  for (int step = 0; step < 3; ++step) {
    at::manual_seed(step);
    ours.mutable_grad() = at::randn({4095});
    theirs.mutable_grad() = ours.grad().clone();
    mixed.step(0.01);
    plain.step(0.01);
  }
  EXPECT_TRUE(ours.allclose(theirs, 1e-6, 1e-7));
}

// The masters are what AdamW makes of FP32 weights from the same gradients; the weights are their rounding.
TEST(MasterWeights, AreFp32WeightsAndTheOthersTheirRounding) {
  at::manual_seed(2);
  const at::Tensor weights = at::randn({50, 40}).to(at::kBFloat16).set_requires_grad(true);
  const at::Tensor wide = weights.detach().to(at::kFloat).set_requires_grad(true);
  MixedAdamW mixed({{"w", weights, true}}, {kOptions, footprint::MomentStorage::kFp32, MasterWeights::kFp32}, nullptr);
  AdamW plain({{"w", wide, true}}, kOptions, nullptr);
  const at::Tensor master = states_of(mixed).at("master.w");
  for (int step = 0; step < 20; ++step) {
    weights.mutable_grad() = at::randn({50, 40}).to(at::kBFloat16);
    wide.mutable_grad() = weights.grad().to(at::kFloat);
    mixed.step(1e-4);
    plain.step(1e-4);
    EXPECT_TRUE(master.allclose(wide, 1e-6, 1e-7)) << step;
    EXPECT_TRUE(weights.equal(master.to(at::kBFloat16))) << step;
  }
}

// Updates of 2^-13 on weights of 1, whose neighbours are 2^-8 and 2^-7 away.
TEST(MasterWeights, StochasticRoundingKeepsWhatRoundingToNearestLoses) {
  constexpr int64_t kCount = 20000;
  constexpr int kSteps = 200;
  const double rate = 1.0 / 8192;
  const auto mean_after = [&](MasterWeights masters) {
    const at::Tensor weights = at::ones({kCount}, at::kBFloat16).set_requires_grad(true);
    MixedAdamW optimizer({{"w", weights, false}}, {kOptions, footprint::MomentStorage::kBf16, masters, 9}, nullptr);
    for (int step = 0; step < kSteps; ++step) {
      weights.mutable_grad() = at::ones({kCount}, at::kBFloat16);
      optimizer.step(rate);
    }
    return weights.to(at::kDouble).mean().item<double>();
  };
  EXPECT_EQ(mean_after(MasterWeights::kNone), 1);
  // A walk of 200 steps with a deviation of at most 2^-8 sqrt(2^-5) each, averaged over 20,000 weights: 6 deviations.
  EXPECT_NEAR(mean_after(MasterWeights::kStochastic), 1 - kSteps * rate, 6e-4);
}

// With beta2 = 0.999 a second moment that should halve in 693 steps stays where rounding to nearest puts it.
TEST(AdamWBf16, ForgetsOldSquaresAsFp32Does) {
  constexpr int64_t kCount = 20000;
  const AdamWOptions options{0.9, 0.999, 1e-8, 0};
  const auto second_after = [&](Optimizer& optimizer, const at::Tensor& weights, const char* name) {
    for (int step = 0; step < 700; ++step) {
      weights.mutable_grad() = at::full({kCount}, step < 7 ? 1.0 : 0.0, weights.options());
      optimizer.step(0);
    }
    return states_of(optimizer).at(name).to(at::kDouble).mean().item<double>();
  };
  const at::Tensor wide = at::ones({kCount}).set_requires_grad(true);
  AdamW reference({{"w", wide, false}}, options, nullptr);
  MixedAdamW mixed({{"w", wide, false}}, {options, footprint::MomentStorage::kBf16}, nullptr);
  const at::Tensor narrow = at::ones({kCount}, at::kBFloat16).set_requires_grad(true);
  AdamW nearest({{"w", narrow, false}}, options, nullptr);
  const double expected = second_after(reference, wide, "exp_avg_sq.w");
  EXPECT_NEAR(second_after(mixed, wide, "exp_avg_sq.w") / expected, 1, 0.01);
  EXPECT_GT(second_after(nearest, narrow, "exp_avg_sq.w") / expected, 1.8);
}

}  // namespace
}  // namespace fathom::optim::mixed_adamw_test
