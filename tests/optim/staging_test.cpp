// Optimizer states that lie elsewhere and pass through slots: the same updates, bit for bit, in any order.
#include "optim/staging.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "footprint/offload.h"
#include "footprint/optimizer.h"
#include "optim/optimizer.h"

namespace fathom::optim::staging_test {
namespace {

// Two pieces and a short one, whose last block of moments is short too; one that stays; one piece; a short block.
const std::vector<std::vector<int64_t>> kShapes = {
    {3, 3'000'001}, {300}, {128, 160}, {footprint::kSmallestOffloaded + 5}};

struct Trained {
  std::vector<at::Tensor> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

Trained make(const config::RunConfig& config, at::ScalarType type, bool offloads) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  Trained run;
  std::vector<OptimizedParameter> parameters;
  for (const std::vector<int64_t>& shape : kShapes) {
    at::Tensor parameter = at::randn(shape, generator, at::TensorOptions()).to(type).requires_grad_(true);
    parameters.push_back({std::to_string(parameters.size()), parameter, /*decays=*/shape.size() > 1});
    run.parameters.push_back(parameter);
  }
  StatesHome home(nullptr);
  if (offloads) home.host_memory = [](int64_t bytes) { return at::zeros({bytes}, at::kByte); };
  run.optimizer = make_optimizer(config, parameters, home);
  return run;
}

void give_gradients(Trained& run, uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const at::Tensor& parameter : run.parameters) {
    parameter.mutable_grad() = at::randn(parameter.sizes(), generator, at::TensorOptions()).to(parameter.scalar_type());
  }
}

struct Kind {
  const char* name;
  config::Optimizer optim;
  config::MasterWeights masters;
  at::ScalarType type;
};
using config::MasterWeights;
const Kind kKinds[] = {{"adamw", config::Optimizer::kAdamW, MasterWeights::kNone, at::kFloat},
                       {"adamw with masters", config::Optimizer::kAdamW, MasterWeights::kFp32, at::kBFloat16},
                       {"adamw_8bit", config::Optimizer::kAdamW8bit, MasterWeights::kStochastic, at::kBFloat16},
                       {"adamw_bf16", config::Optimizer::kAdamWBf16, MasterWeights::kStochastic, at::kBFloat16},
                       {"lion", config::Optimizer::kLion, MasterWeights::kNone, at::kFloat}};

config::RunConfig config_of(const Kind& kind) {
  config::RunConfig config;
  config.optim = kind.optim;
  config.master_weights = kind.masters;
  config.weight_decay = 0.1;
  config.offload_optimizer = true;
  return config;
}

void expect_equal(const Trained& run, const Trained& expected) {
  for (size_t i = 0; i < run.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(run.parameters[i], expected.parameters[i])) << "parameter " << i;
  }
  run.optimizer->wait();
  for (size_t i = 0; i < run.optimizer->state().size(); ++i) {
    const auto& [name, state] = run.optimizer->state()[i];
    EXPECT_TRUE(at::equal(state, expected.optimizer->state()[i].second)) << name;
  }
}

TEST(Staging, LeavesUpdatesAlone) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    Trained here = make(config_of(kind), kind.type, false), there = make(config_of(kind), kind.type, true);
    for (uint64_t step = 1; step <= 3; ++step) {
      for (Trained* run : {&here, &there}) {
        give_gradients(*run, step);
        run->optimizer->step(1e-2, at::full({}, 0.5));
      }
    }
    expect_equal(there, here);
  }
}

// The order of a backward pass, which is another than was expected in the first step, and another again in the last.
TEST(Staging, FollowsAnyOrder) {
  const Kind& kind = kKinds[2];
  Trained here = make(config_of(kind), kind.type, false), there = make(config_of(kind), kind.type, true);
  const std::vector<std::vector<size_t>> orders = {{3, 2, 1, 0}, {3, 2, 1, 0}, {2, 0, 3, 1}};
  for (size_t step = 0; step < orders.size(); ++step) {
    give_gradients(here, step);
    here.optimizer->step(1e-2);
    give_gradients(there, step);
    there.optimizer->begin_step();
    for (const size_t index : orders[step]) {
      there.optimizer->step_of(index, 1e-2);
      EXPECT_FALSE(there.parameters[index].grad().defined());
    }
  }
  expect_equal(there, here);
}

TEST(Staging, IsAsPlanned) {
  std::vector<footprint::TrainedSizes> trained;
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    trained.clear();
    for (const auto& shape : kShapes) {
      trained.push_back({shape[0], shape.size() > 1 ? shape[1] : 0, static_cast<int64_t>(c10::elementSize(kind.type))});
    }
    const Trained run = make(config_of(kind), kind.type, true);
    EXPECT_EQ(run.optimizer->host_bytes(), footprint::host_state_bytes(config_of(kind), trained));
    int64_t here = 0, all = 0;
    for (const auto& [name, state] : run.optimizer->state()) {
      all += static_cast<int64_t>(state.nbytes());
      here += name.ends_with(".1") ? static_cast<int64_t>(state.nbytes()) : 0;
    }
    EXPECT_EQ(run.optimizer->host_bytes(), all - here);
    int64_t planned = 0;
    for (const footprint::Bytes& tensor : footprint::state_footprint(config_of(kind), trained, /*cuda=*/false)) {
      if (tensor.component == memory::Component::kOptimizerStates) planned += value_of(tensor.product);
    }
    EXPECT_EQ(planned, here);
  }
}

}  // namespace
}  // namespace fathom::optim::staging_test
