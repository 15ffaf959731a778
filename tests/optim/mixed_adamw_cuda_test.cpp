// AdamW in several types by fathom's CUDA kernel, played on the CPU thread by thread, against the CPU's own kernel.
#include "tests/ops/cuda_on_cpu.h"

// Its sources, with what stands above for CUDA.
#include "ops/cuda/launch.cu"
// After them:
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/mixed_run.h"

namespace fathom::optim::mixed_adamw_cuda_test {
namespace {

using config::MasterWeights;
using footprint::MomentStorage;

const AdamWOptions kOptions = {0.8, 0.95, 1e-6, 0.1};

// The same run by either kernel.
struct SmallRun : MixedRun {
  SmallRun(const Kind& kind, const std::vector<int64_t>& sizes, bool on_gpu, int64_t skipped = 0)
      : SmallRun(kind, sizes, on_gpu ? fathom_cuda_kernels() : nullptr, skipped) {}
  SmallRun(const Kind& kind, const std::vector<int64_t>& sizes, const ops::CudaKernels* kernels, int64_t skipped) {
    at::manual_seed(3);
    std::vector<OptimizedParameter> optimized;
    for (const int64_t elements : sizes) {
      parameters.push_back(at::randn({elements + skipped}).to(kind.weights).narrow(0, skipped, elements));
      parameters.back().set_requires_grad(true);
      optimized.push_back({std::to_string(parameters.size()), parameters.back(), parameters.size() % 2 == 0});
    }
    MixedAdamWOptions options{kOptions, kind.moments, kind.masters, 5};
    options.cuda_kernels = kernels;
    optimizer = std::make_unique<MixedAdamW>(optimized, options, nullptr);
  }

  void step(int index, const at::Tensor& factor = {}) const {
    at::manual_seed(100 + index);
    for (const at::Tensor& parameter : parameters) {
      // Of many magnitudes, so that all decades of codes occur.
      const at::Tensor spread = at::randn(parameter.sizes()).mul(2).exp();
      parameter.mutable_grad() = (at::randn(parameter.sizes()) * spread).to(parameter.scalar_type());
    }
    optimizer->step(0.01, factor);
  }
};

// NaN is NaN.
void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  const at::Tensor same = actual.eq(expected).logical_or(actual.isnan().logical_and(expected.isnan()));
  EXPECT_TRUE(same.all().item<bool>()) << what << ": " << same.logical_not().sum().item<int64_t>() << " of "
                                       << same.numel() << " differ";
}

void expect_same_bits(const SmallRun& ours, const SmallRun& theirs) {
  const std::vector<at::Tensor> actual = ours.everything(), expected = theirs.everything();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const size_t count = ours.parameters.size();
    expect_same_bits(actual[i], expected[i], i < count ? std::to_string(i) : ours.optimizer->state()[i - count].first);
  }
}

const std::vector<Kind> kKinds = {{"8bit", at::kFloat, MomentStorage::k8bit, MasterWeights::kNone},
                                  {"8bit_bf16", at::kBFloat16, MomentStorage::k8bit, MasterWeights::kNone},
                                  {"8bit_masters", at::kBFloat16, MomentStorage::k8bit, MasterWeights::kFp32},
                                  {"8bit_stochastic", at::kBFloat16, MomentStorage::k8bit, MasterWeights::kStochastic},
                                  {"bf16", at::kFloat, MomentStorage::kBf16, MasterWeights::kNone},
                                  {"bf16_bf16", at::kBFloat16, MomentStorage::kBf16, MasterWeights::kNone},
                                  {"masters", at::kBFloat16, MomentStorage::kFp32, MasterWeights::kFp32},
                                  {"stochastic", at::kBFloat16, MomentStorage::kBf16, MasterWeights::kStochastic}};

// Without another implementation in MixedAdamW.
const Kind kPlain = {"plain", at::kFloat, MomentStorage::kAsWeights, MasterWeights::kNone};
const Kind kPlainBf16 = {"plain_bf16", at::kBFloat16, MomentStorage::kAsWeights, MasterWeights::kNone};

class MixedAdamWOnCuda : public ::testing::TestWithParam<Kind> {};

TEST_P(MixedAdamWOnCuda, HasTheBitsOfTheCpusKernel) {
  for (const at::Tensor& factor : {at::Tensor(), at::scalar_tensor(0.25, at::kFloat)}) {
    const std::vector<int64_t> sizes = {1, 255, 256, 257, 4096, 4096 + 3, 5973};
    const SmallRun ours(GetParam(), sizes, true), theirs(GetParam(), sizes, false);
    for (int step = 0; step < 3; ++step) {
      ours.step(step, factor);
      theirs.step(step, factor);
    }
    expect_same_bits(ours, theirs);
  }
}

// More than one chunk, and where no wide access may begin.
TEST_P(MixedAdamWOnCuda, TakesLargeParametersAndUnalignedOnes) {
  for (const int64_t skipped : {0, 1}) {
    const std::vector<int64_t> sizes = {2 * ops::cuda::kUpdateChunk + 777};
    const SmallRun ours(GetParam(), sizes, true, skipped), theirs(GetParam(), sizes, false, skipped);
    for (int step = 0; step < 2; ++step) {
      ours.step(step);
      theirs.step(step);
    }
    expect_same_bits(ours, theirs);
  }
}

TEST_P(MixedAdamWOnCuda, KeepsWhatIsNotFiniteAsTheCpuDoes) {
  const SmallRun ours(GetParam(), {5000, 100}, true), theirs(GetParam(), {5000, 100}, false);
  for (const SmallRun* run : {&ours, &theirs}) {
    run->step(0);
    at::Tensor gradient = run->parameters[0].grad();
    gradient[300] = NAN;
    gradient[1000] = INFINITY;
    gradient.narrow(0, 2048, 256).zero_();
    run->optimizer->step(0.01);
  }
  // Codes of a block whose scale is NaN are none.
  for (size_t i = 0; i < ours.parameters.size(); ++i) {
    expect_same_bits(ours.parameters[i], theirs.parameters[i], std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(All, MixedAdamWOnCuda, ::testing::ValuesIn(kKinds),
                         [](const ::testing::TestParamInfo<Kind>& info) { return std::string(info.param.name); });

// More than one launch has room for.
TEST(MixedAdamWByCudaKernel, TakesManyParameters) {
  const Kind kind = {"", at::kFloat, MomentStorage::kBf16, MasterWeights::kNone};
  const std::vector<int64_t> sizes(ops::cuda::kParametersAtOnce + 2, 9);
  const SmallRun ours(kind, sizes, true), theirs(kind, sizes, false);
  played_launches = 0;
  ours.step(0);
  EXPECT_EQ(played_launches, 2);
  EXPECT_EQ(played_blocks, 2);
  theirs.step(0);
  expect_same_bits(ours, theirs);
}

// What updates of several optimizers would have the kernel do.
struct Asked {
  static inline ops::MixedAdamWUpdate update;
  static inline std::vector<ops::UpdatedParameter> parameters;
  static int take(const ops::MixedAdamWUpdate& asked, const ops::UpdatedParameter* some, int64_t count, void*) {
    if (asked.first.values_256 != nullptr) update = asked;
    parameters.insert(parameters.end(), some, some + count);
    return 0;
  }
};

TEST(MixedAdamWByCudaKernel, TakesAllKindsInOneLaunch) {
  ops::CudaKernels asks = *fathom_cuda_kernels();
  asks.mixed_adamw = Asked::take;
  const std::vector<int64_t> sizes = {9, 5973};
  std::vector<Kind> kinds = kKinds;
  kinds.insert(kinds.end(), {kPlain, kPlainBf16});
  std::vector<std::unique_ptr<SmallRun>> ours, theirs;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto skipped = static_cast<int64_t>(i % 2);
    const bool is_plain = kinds[i].moments == MomentStorage::kAsWeights;
    ours.push_back(std::make_unique<SmallRun>(kinds[i], sizes, &asks, skipped));
    theirs.push_back(std::make_unique<SmallRun>(kinds[i], sizes, is_plain ? fathom_cuda_kernels() : nullptr, skipped));
    theirs.back()->step(0);
    ours.back()->step(0);
  }
  ASSERT_EQ(Asked::parameters.size(), kinds.size() * sizes.size());
  played_launches = 0;
  const auto count = static_cast<int64_t>(Asked::parameters.size());
  ASSERT_EQ(fathom_cuda_kernels()->mixed_adamw(Asked::update, Asked::parameters.data(), count, nullptr), 0);
  EXPECT_EQ(played_launches, 1);
  for (size_t i = 0; i < kinds.size(); ++i) {
    SCOPED_TRACE(kinds[i].name);
    expect_same_bits(*ours[i], *theirs[i]);
  }
}

// Of one type, all rounded to nearest: what AdamW does elsewhere, but for sums in another order, which let some numbers
// of BF16 be the one beside.
TEST(MixedAdamWByCudaKernel, DoesWhatAdamWDoes) {
  for (const Kind& kind : {kPlain, kPlainBf16}) {
    SCOPED_TRACE(kind.name);
    const std::vector<int64_t> sizes = {1, 257, 4099, 20001};
    const SmallRun ours(kind, sizes, true, 1), start(kind, sizes, true, 1);
    std::vector<OptimizedParameter> optimized;
    for (const at::Tensor& parameter : start.parameters) {
      optimized.push_back({std::to_string(optimized.size() + 1), parameter, optimized.size() % 2 == 1});
    }
    AdamW theirs(optimized, kOptions, nullptr);
    const at::Tensor factor = at::scalar_tensor(0.25, at::kFloat);
    for (int step = 0; step < 4; ++step) {
      ours.step(step, factor);
      for (size_t i = 0; i < optimized.size(); ++i) {
        optimized[i].tensor.mutable_grad() = ours.parameters[i].grad().clone();
      }
      theirs.step(0.01, factor);
    }
    const auto check = [&](const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
      ASSERT_EQ(actual.scalar_type(), kind.weights) << what;
      const at::Tensor wide = expected.to(at::kFloat), difference = (actual.to(at::kFloat) - wide).abs();
      const double digit = kind.weights == at::kFloat ? 1e-6 : 1.0 / 64;
      EXPECT_TRUE(difference.le(wide.abs() * digit + 1e-7).all().item<bool>()) << what;
      EXPECT_LE(difference.gt(0).to(at::kFloat).mean().item<double>(), kind.weights == at::kFloat ? 1 : 0.02) << what;
    };
    for (size_t i = 0; i < optimized.size(); ++i) {
      check(ours.parameters[i].detach(), optimized[i].tensor.detach(), std::to_string(i));
    }
    ASSERT_EQ(ours.optimizer->state().size(), theirs.state().size());
    for (size_t i = 0; i < theirs.state().size(); ++i) {
      EXPECT_EQ(ours.optimizer->state()[i].first, theirs.state()[i].first);
      check(ours.optimizer->state()[i].second, theirs.state()[i].second, theirs.state()[i].first);
    }
  }
}

TEST(MixedAdamWByCudaKernel, TakesGradientsThatLieOtherwise) {
  const Kind kind = {"", at::kFloat, MomentStorage::k8bit, MasterWeights::kNone};
  const SmallRun ours(kind, {5120, 9}, true), theirs(kind, {5120, 9}, false);
  for (const SmallRun* run : {&ours, &theirs}) {
    at::manual_seed(1);
    for (const at::Tensor& parameter : run->parameters) {
      parameter.mutable_grad() = at::randn({parameter.numel(), 2}).select(1, 0);
    }
    run->optimizer->step(0.01);
  }
  expect_same_bits(ours, theirs);
}

// All numbers of FP32 from the smallest that is no 0 to 1, a share of them: that of the CPU, by the same borders.
TEST(MixedAdamWByCudaKernel, TakesTheNearestCode) {
  const auto check = [](const quant::DynamicMap& map, float fraction) {
    const float values[2] = {fraction, 1};
    uint8_t expected[2];
    quant::quantize_dynamic(map, values, 2, expected);
    const uint8_t code = map.with_signs ? ops::cuda::nearest_code<true>(fraction, map.midpoints.data(), map.zero)
                                        : ops::cuda::nearest_code<false>(fraction, map.midpoints.data(), map.zero);
    return code == expected[0];
  };
  int64_t wrong = 0;
  for (const quant::DynamicMap* map : {&quant::kSignedDynamic, &quant::kUnsignedDynamic}) {
    for (uint32_t bits = 0; bits <= 0x3f800000u; bits += 997) {
      const auto fraction = std::bit_cast<float>(bits);
      wrong += check(*map, fraction) ? 0 : 1;
      if (map->with_signs) wrong += check(*map, -fraction) ? 0 : 1;
    }
    for (const float midpoint : map->midpoints) {
      for (const float near : {std::nextafter(midpoint, -2.0f), midpoint, std::nextafter(midpoint, 2.0f)}) {
        if (near <= 1) wrong += check(*map, near) ? 0 : 1;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fathom::optim::mixed_adamw_cuda_test
