// Parameters of which every rank keeps a share (FSDP: Zhao et al. 2023, arXiv 2304.11277; ZeRO's stage 3: Rajbhandari
// et al. 2020, arXiv 1910.02054). Of each unit of the model they lie end to end and are cut into as many pieces as
// there are ranks; the pieces of a unit are gathered while it computes, and those of its gradients are added up where
// they belong.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/group.h"
#include "dist/sharded_run.h"
#include "ledger/ledger.h"
#include "model/parameters.h"

namespace fathom::dist {

// A pass that this rank has no batch for is taken along all the same: every rank gathers in the same order.
class ShardedParameters final : public model::UnitKeeper {
 public:
  // reshards: a unit's weights are let go after the forward pass, and gathered again for the backward pass.
  ShardedParameters(Group& group, ledger::Ledger& ledger, bool reshards);
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // Those of a model that was made with this as its units: takes this rank's share of each and claims it as weights;
  // what they hold comes by `open`. first_stays: others than unit 0 read its parameters.
  void adopt(const std::vector<model::Parameter>& parameters, bool first_stays);

  // What this rank has of the parameters, [n] each; trained ones have their share of the gradient from the first
  // round of a step on.
  const std::vector<model::Parameter>& shares() const { return shares_; }
  void clear_gradients();

  // A round is the forward and backward pass of a micro-batch on the first `contributors` ranks; the others call
  // `idle_round`. What it adds to the gradients is added in the order of ranks to what rounds before it have added.
  void begin_round(int64_t contributors);
  void end_round();
  void idle_round(int64_t contributors);

  // States of an optimizer of `shares`, "<kind>.<parameter>": every number is one weight's. Every rank calls it.
  void adopt_states(const std::vector<std::pair<std::string, at::Tensor>>& states);
  // All of them, of the parameters' shapes, by the names of whole parameters; they are read and written by `open`.
  const std::vector<std::pair<std::string, at::Tensor>>& whole_states() const { return whole_states_; }

  void before(int64_t unit) override;
  void after(int64_t unit, const at::Tensor& made) override;
  void idle_pass() override;
  // Every rank opens the same tensors, whole parameters or states, in the same order.
  void open(const at::Tensor& tensor) override;
  void close() override;
  void fill(const at::Tensor& tensor, const at::Tensor& from) override;

 private:
  struct Run;
  struct Unit;
  struct Reduction;

  void add_shares(Run& run, const std::vector<const model::Parameter*>& parameters);
  void add_states(const Run& run, const std::string& kind, at::ScalarType type,
                  const std::map<std::string, at::Tensor>& own);
  void fetch(int64_t unit);
  void finish_fetch(int64_t unit);
  void let_go(int64_t unit);
  void reach_backward(int64_t unit);
  void finish_backward(int64_t unit);
  void begin_reduction(Unit& unit);
  void finish_reduction();
  int64_t last_unit() const { return static_cast<int64_t>(units_.size()) - 1; }

  Group& group_;
  ledger::Ledger& ledger_;
  const bool reshards_;
  bool first_stays_ = false;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<Run>> state_runs_;
  std::map<const c10::StorageImpl*, Run*> by_storage_;
  std::vector<model::Parameter> shares_;
  std::vector<std::pair<std::string, at::Tensor>> whole_states_;
  std::vector<Run*> open_;
  int64_t lowest_trained_ = 0;  // unit
  int64_t contributors_ = 0;    // of the round; 0: there is none
  int64_t ahead_ = -1;          // the unit that is fetched before its turn; -1: none
  int64_t behind_ = 0;          // units above have had their backward pass in this round
  std::unique_ptr<Reduction> reduction_;
};

}  // namespace fathom::dist
