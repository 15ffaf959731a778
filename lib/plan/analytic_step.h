// The training step and the evaluation of one batch, told in tensors: lib/model and lib/train in sizes alone. No torch
// header.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <vector>

#include "plan/analytic_operators.h"

namespace fathom::plan {

class AccountOfRun {
 public:
  AccountOfRun(const arch::ModelShape& shape, const config::RunConfig& run, const Target& target,
               const Workload& workload);
  void step(const train::StepShape& step);
  void evaluation(const train::BatchShape& batch);
  Analytic largest() const { return account_.largest(); }

 private:
  struct Layer {
    Weight q, k, v, o, gate, up, down;
    NormWeight first_norm, second_norm, query_norm, key_norm;
    bool trains() const;
  };
  void load();
  void load_steps();
  void standing(const Target& target, const Workload& workload);
  Value embed(Operators& operators);
  Tensor embedding_gradient(Operators& operators);
  LinearInput branch_input(Operators& operators, const Value& stream, NormWeight& norm, const char* name);
  Value with_branch(Operators& operators, Value branch, const Value& stream, NormWeight& norm, const char* name);
  Value run_layer(Operators& operators, Layer& layer, const Value& stream);
  Value checkpointed(Operators& operators, Layer& layer, const Value& stream);
  Tensor forward(Operators& operators);
  Value counted_rows(Operators& operators, Value x);
  Tensor sum_of_head(Operators& operators, bool in_one);
  void play_chunk(Operators& operators, int64_t rows, bool gradients, bool widens);
  Tensor loss(Operators& operators, Value x);
  void give_head_gradient(Operators& operators, Tensor made);
  void gather_positions(Operators& operators);
  void update();
  Product vocabulary(int64_t bytes) const;            // embedding or head
  Product scores(int64_t rows, int64_t bytes) const;  // of so many rows for each token of the vocabulary

  const StepSettings s_;
  Account account_;
  std::list<Layer> layers_;
  std::array<Tensor, 2> recipe_positions_;  // of a packed batch, which checkpoints keep while there is a graph
  NormWeight last_norm_;
  Tensor embedding_gradient_, head_gradient_;
  Tensor waiting_head_;  // a tied head's gradient, until the embedding's
  Tensor head_copy_;     // in autocast's cache
};

}  // namespace fathom::plan
