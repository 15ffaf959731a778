// All optimizers against what torch's and transformers' make of the same gradients (scripts/golden/optimizers.py), and
// what holds for each of them: resuming, threads, types, and the same result by ATen's operators.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ops/scalar_type.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "weights/safetensors.h"

namespace fathom::optim::parity_test {
namespace {

const std::vector<std::string> kNames = {"wide", "tall", "square", "vector"};
constexpr int64_t kSteps = 5;

class Golden {
 public:
  static const at::Tensor& tensor(const std::string& name) {
    static const Golden golden;
    return golden.tensors_.at(name);
  }

 private:
  Golden() : file_(std::string(FATHOM_SOURCE_DIR) + "/tests/optim/golden/optimizers.safetensors") {
    for (const weights::TensorInfo& info : file_.tensors()) {
      void* bytes = const_cast<std::byte*>(file_.data(info));
      tensors_[info.name] =
          at::from_blob(bytes, info.shape, at::TensorOptions().dtype(ops::scalar_type(info.dtype))).clone();
    }
  }
  weights::SafetensorsFile file_;
  std::map<std::string, at::Tensor> tensors_;
};

struct Kind {
  config::Optimizer optimizer;
  const char* name;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

config::RunConfig config_of(const Kind& kind) {
  config::RunConfig config;
  config.optim = kind.optimizer;
  config.adam_beta1 = 0.8;
  config.adam_beta2 = 0.95;
  config.adam_epsilon = 1e-6;
  config.weight_decay = 0.1;
  return config;
}

// The golden run: `type` is "f32" or "bf16".
class GoldenRun {
 public:
  GoldenRun(const Kind& kind, std::string type) : type_(std::move(type)) {
    for (const std::string& name : kNames) {
      at::Tensor parameter = Golden::tensor(type_ + ".initial." + name).clone().set_requires_grad(true);
      parameters_.push_back({name, parameter, parameter.dim() > 1});
    }
    optimizer_ = make_optimizer(config_of(kind), parameters_, nullptr);
  }

  void step(int64_t index) {
    std::vector<at::Tensor> gradients;
    for (const OptimizedParameter& parameter : parameters_) {
      gradients.push_back(Golden::tensor(type_ + ".gradient." + std::to_string(index) + "." + parameter.name).clone());
      parameter.tensor.mutable_grad() = gradients.back();
    }
    const auto rate = Golden::tensor("rates")[index].item<double>();
    optimizer_->step(rate, gradient_norm(gradients, type_ == "f32" ? 3 : 0).factor);
  }

  // Everything that the other run had.
  void resume(const GoldenRun& other) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].tensor.detach().copy_(other.parameters_[i].tensor.detach());
    }
    for (size_t i = 0; i < optimizer_->state().size(); ++i) {
      EXPECT_EQ(optimizer_->state()[i].first, other.optimizer_->state()[i].first);
      optimizer_->state()[i].second.copy_(other.optimizer_->state()[i].second);
    }
    optimizer_->set_steps(other.optimizer_->steps());
  }

  const std::vector<OptimizedParameter>& parameters() const { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  std::string type_;
  std::vector<OptimizedParameter> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

class Optimizers : public ::testing::TestWithParam<Kind> {};

TEST_P(Optimizers, AgreeWithTheirReference) {
  GoldenRun run(GetParam(), "f32");
  for (int64_t step = 0; step < kSteps; ++step) {
    run.step(step);
    if (step != 1 && step != 4) continue;
    for (const OptimizedParameter& parameter : run.parameters()) {
      const std::string name =
          std::string("f32.") + GetParam().name + "." + std::to_string(step) + "." + parameter.name;
      // Updates are about as large as the rate, 1e-2; FP32 sums in another order differ by 1e-6 of that and less.
      EXPECT_LE((parameter.tensor - Golden::tensor(name)).abs().max().item<double>(), 2e-6) << name;
    }
  }
}

TEST_P(Optimizers, AgreeWithTheirReferenceOnBf16Parameters) {
  GoldenRun run(GetParam(), "bf16");
  for (int64_t step = 0; step < kSteps; ++step) run.step(step);
  for (const OptimizedParameter& parameter : run.parameters()) {
    const std::string name = std::string("bf16.") + GetParam().name + ".4." + parameter.name;
    const at::Tensor expected = Golden::tensor(name).to(at::kFloat);
    const at::Tensor difference = (parameter.tensor.to(at::kFloat) - expected).abs();
    // Sums in another order let a few parameters round to a neighbouring number.
    const at::Tensor neighbour = expected.abs() * (1.0 / 128) + 1e-3;
    EXPECT_TRUE(difference.le(neighbour).all().item<bool>()) << name << ": " << difference.max().item<double>();
    EXPECT_LE(difference.gt(0).to(at::kFloat).mean().item<double>(), 0.02) << name;
  }
}

TEST_P(Optimizers, ResumeInTheSameBits) {
  for (const char* type : {"f32", "bf16"}) {
    GoldenRun whole(GetParam(), type), first(GetParam(), type), second(GetParam(), type);
    for (int64_t step = 0; step < kSteps; ++step) whole.step(step);
    for (int64_t step = 0; step < 2; ++step) first.step(step);
    second.resume(first);
    for (int64_t step = 2; step < kSteps; ++step) second.step(step);
    for (size_t i = 0; i < kNames.size(); ++i) {
      EXPECT_TRUE(second.parameters()[i].tensor.equal(whole.parameters()[i].tensor)) << type << " " << kNames[i];
    }
  }
}

TEST_P(Optimizers, KeepWhatTheyAreSaidTo) {
  GoldenRun run(GetParam(), "bf16");
  int64_t bytes = 0;
  for (const auto& [name, tensor] : run.optimizer().state()) {
    bytes += static_cast<int64_t>(tensor.nbytes());
    EXPECT_TRUE(tensor.eq(0).all().item<bool>()) << name << " before the first step";
  }
  constexpr int64_t kElements = 2 * 1100 + 70 * 5 + 16 * 16 + 37, kSides = 2 + 1100 + 70 + 5 + 16 + 16;
  const std::map<std::string, int64_t> expected = {
      {"adamw", 2 * kElements * 2}, {"sgd", 0}, {"lion", kElements * 4}, {"adafactor", (kSides + 37) * 4}};
  EXPECT_EQ(bytes, expected.at(GetParam().name));
}

TEST_P(Optimizers, GiveTheSameBitsForAnyNumberOfThreads) {
  const auto parameter_after = [&](int threads) {
    at::set_num_threads(threads);
    at::manual_seed(3);
    at::Tensor parameter = at::randn({301, 517}).set_requires_grad(true);
    const auto optimizer = make_optimizer(config_of(GetParam()), {{"w", parameter, true}}, nullptr);
    for (int step = 0; step < 3; ++step) {
      parameter.mutable_grad() = at::randn({301, 517});
      optimizer->step(0.01);
    }
    at::set_num_threads(1);
    return parameter;
  };
  EXPECT_TRUE(parameter_after(1).equal(parameter_after(2)));
}

// In FP64 there is no kernel of ours: ATen's operators, those of CUDA, do the same.
TEST_P(Optimizers, AgreeWithThemselvesByOperators) {
  for (const bool clips : {false, true}) {
    at::manual_seed(4);
    const at::Tensor start = at::randn({9, 31}), line = at::randn({11});
    std::map<at::ScalarType, std::vector<at::Tensor>> ends;
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      at::manual_seed(5);
      const at::Tensor matrix = start.to(type, false, true).set_requires_grad(true);
      const at::Tensor vector = line.to(type, false, true).set_requires_grad(true);
      const auto optimizer =
          make_optimizer(config_of(GetParam()), {{"matrix", matrix, true}, {"vector", vector, false}}, nullptr);
      for (int step = 0; step < 4; ++step) {
        matrix.mutable_grad() = at::randn({9, 31}).to(type);
        vector.mutable_grad() = at::randn({11}).to(type);
        optimizer->step(0.01, clips ? at::scalar_tensor(0.25, at::kFloat) : at::Tensor());
      }
      ends[type] = {matrix.detach(), vector.detach()};
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_LE((ends[at::kFloat][i] - ends[at::kDouble][i]).abs().max().item<double>(), 2e-6) << "tensor " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers,
                         ::testing::Values(Kind{config::Optimizer::kAdamW, "adamw"},
                                           Kind{config::Optimizer::kSgd, "sgd"},
                                           Kind{config::Optimizer::kAdafactor, "adafactor"},
                                           Kind{config::Optimizer::kLion, "lion"}),
                         [](const ::testing::TestParamInfo<Kind>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace fathom::optim::parity_test
