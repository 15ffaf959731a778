// Small models that stand for others' layers where a machine is measured, and are trained there.
#pragma once

#include <functional>

#include "data/batch.h"
#include "train/trainer.h"

namespace fathom::play {

// Of a Llama whose embedding and head are not tied.
struct ReferenceShape {
  int64_t width = 0, heads = 0, key_value_heads = 0, head_dim = 0, feed_forward = 0, vocabulary = 0;
  int64_t layers = 2;
  DType dtype = DType::kF32;
};

// One with drawn weights, and rows of different ids, all of which count.
class ReferenceTraining {
 public:
  ReferenceTraining(const config::RunConfig& config, const ReferenceShape& shape, int64_t rows, int64_t length,
                    const train::Placement& placement);
  // before_update: Trainer::step.
  void step(const std::function<void()>& before_update = nullptr);
  void evaluate();

 private:
  data::Batch batch_;
  train::Trainer trainer_;
};

}  // namespace fathom::play
