// The same runs of an optimizer by two kernels.
#include "optim/prove_kernels.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"

namespace fathom::optim {
namespace {

constexpr double kRate = 0.05;    // of weights near 1: an update that is left out is seen
constexpr double kLimit = 5;      // to which gradients are clipped, which are longer
constexpr int64_t kOfSmall = 40;  // elements, of which no whole access of all begins at a multiple of 32 bytes
constexpr int64_t kLarge[] = {40003, 4099, 256, 1};

struct Kind {
  const char* name;
  at::ScalarType weights;
  config::Optimizer optim;
  config::MasterWeights masters = config::MasterWeights::kNone;
  int64_t small = 5;  // parameters
};

constexpr Kind kKinds[] = {
    {"adamw in FP32", at::kFloat, config::Optimizer::kAdamW, config::MasterWeights::kNone, 400},  // in two launches
    {"adamw in BF16", at::kBFloat16, config::Optimizer::kAdamW},
    {"adamw in BF16 with masters", at::kBFloat16, config::Optimizer::kAdamW, config::MasterWeights::kFp32},
    {"adamw with stochastic rounding", at::kBFloat16, config::Optimizer::kAdamW, config::MasterWeights::kStochastic},
    {"adamw_bf16", at::kFloat, config::Optimizer::kAdamWBf16},
    {"adamw_8bit in FP32", at::kFloat, config::Optimizer::kAdamW8bit},
    {"adamw_8bit in BF16", at::kBFloat16, config::Optimizer::kAdamW8bit, config::MasterWeights::kStochastic},
};

// The norm, the factor and the weights, on the CPU.
std::vector<at::Tensor> updated(const Kind& kind, at::Device device) {
  config::RunConfig config;
  config.optim = kind.optim;
  config.master_weights = kind.masters;
  config.weight_decay = 0.1;
  std::vector<int64_t> sizes(kind.small, kOfSmall);
  sizes.insert(sizes.end(), std::begin(kLarge), std::end(kLarge));
  int64_t all = 0;
  for (const int64_t size : sizes) all += size;
  const at::Generator generator = at::detail::createCPUGenerator(1);
  const auto drawn = [&] { return at::randn({all}, generator, at::kFloat).to(kind.weights).to(device); };
  const at::Tensor weights = drawn();
  std::vector<OptimizedParameter> parameters;
  int64_t place = 0;
  for (const int64_t size : sizes) {
    at::Tensor tensor = weights.narrow(0, place, size);
    parameters.push_back({std::to_string(place), tensor.set_requires_grad(true), parameters.size() % 2 == 0});
    place += size;
  }
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config, parameters, nullptr);
  GradientNorm norm;
  for (int step = 0; step < 2; ++step) {
    const at::Tensor gradient = drawn();
    std::vector<at::Tensor> gradients = gradient.split_with_sizes(sizes);
    for (size_t i = 0; i < gradients.size(); ++i) parameters[i].tensor.mutable_grad() = gradients[i];
    norm = gradient_norm(gradients, kLimit, std::nullopt);
    optimizer->step(kRate, norm.factor);
  }
  return {norm.total.cpu(), norm.factor.cpu(), weights.cpu()};
}

}  // namespace

// Of BF16 some numbers are rounded to a neighbour, where what was rounded differs in its last bits.
bool are_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                    [](const auto& ours, const auto& theirs) {
                      const at::Tensor wide = theirs.to(at::kDouble);
                      const double difference = (ours.to(at::kDouble) - wide).norm().template item<double>();
                      const double allowed = ours.scalar_type() == at::kFloat ? 1e-5 : 2e-3;
                      return difference <= allowed * wide.norm().template item<double>();
                    });
}

void prove_kernels(at::Device device) {
  for (const Kind& kind : kKinds) {
    if (are_near(updated(kind, device), updated(kind, at::kCPU))) continue;
    throw Error(std::string("fathom's kernels update weights by ") + kind.name + " otherwise on this GPU than on a CPU",
                "set cuda_kernels: false; nothing was trained");
  }
}

}  // namespace fathom::optim
