// Parameters of which every rank of a copy keeps a share (FSDP: Zhao et al. 2023, arXiv 2304.11277; ZeRO's stage 3:
// Rajbhandari et al. 2020, arXiv 1910.02054). Of each unit of the model they lie end to end and are cut into as many
// pieces as there are ranks; the pieces of a unit are gathered while it computes, and those of its gradients are added
// up where they belong, and then over copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/copies.h"
#include "dist/group.h"
#include "dist/sharded_run.h"
#include "ledger/ledger.h"
#include "model/parameters.h"

namespace fathom::dist {

// A pass that this rank has no batch for is taken along all the same: every rank gathers in the same order.
class ShardedParameters final : public model::UnitKeeper {
 public:
  // Every rank of `all` makes them. shards: processes that share a copy. reshards: a unit's weights are let go after
  // the forward pass, and gathered again for the backward pass.
  ShardedParameters(Group& all, int64_t shards, ledger::Ledger& ledger, bool reshards);
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // What this rank has of a parameter, [n].
  struct Share : model::Parameter {
    int64_t place = 0;  // of a trained one, among these in the model's order
    int64_t first = 0;  // the parameter's number that it begins with
    int64_t whole = 0;  // numbers of the parameter
  };
  // Of a trained parameter of so many numbers: how many, from the first on, stay together. A power of two.
  using BlockOf = std::function<int64_t(int64_t numbers)>;

  // Those of a model that was made with this as its units: takes this rank's share of each and claims it as weights;
  // what they hold comes by `open`. first_stays: others than unit 0 read its parameters.
  void adopt(const std::vector<model::Parameter>& parameters, bool first_stays, const BlockOf& block_of);

  // Of a trained parameter it may be empty. They have their share of the gradient from the first round of a step on.
  const std::vector<Share>& shares() const { return shares_; }
  void clear_gradients();

  // The forward and backward pass of a micro-batch on the first `contributors` of all ranks; the others call
  // `idle_round`. What it adds to the gradients of a copy is added in the order of ranks to what rounds before it have
  // added; the last one of a step adds up copies.
  struct Round {
    int64_t contributors = 0;
    bool is_last = true;
  };
  void begin_round(const Round& round);
  void end_round();
  void idle_round(const Round& round);

  // Of a number of each share of a copy.
  double sum(double number) const;

  // States of an optimizer of `shares`, "<kind>.<parameter>", of the same kinds for all parameters of a type and block.
  // blocks: of each, of how many weights its numbers are, 1 or a block.
  void adopt_states(const std::vector<std::pair<std::string, at::Tensor>>& states, const std::vector<int64_t>& blocks);
  // All of them, by the names of whole parameters: of their shapes, or [blocks]. They are read and written by `open`.
  const std::vector<std::pair<std::string, at::Tensor>>& whole_states() const { return whole_states_; }

  void before(int64_t unit) override;
  void after(int64_t unit, const at::Tensor& made) override;
  void idle_pass() override;
  // Every rank opens the same tensors, whole parameters or states, in the same order.
  void open(const at::Tensor& tensor) override;
  void close() override;
  void fill(const at::Tensor& tensor, const at::Tensor& from) override;
  std::vector<Kept> kept(const at::Tensor& tensor) const override;

 private:
  struct Run;
  struct Unit;
  struct Reduction;

  void add_shares(Run& run, std::vector<Share> shares);
  struct State;
  void add_states(const Run& run, const State& kind, const std::map<std::string, at::Tensor>& own);
  void fetch(int64_t unit);
  void finish_fetch(int64_t unit);
  void let_go(int64_t unit);
  void reach_backward(int64_t unit);
  void finish_backward(int64_t unit);
  void begin_reduction(Unit& unit);
  void finish_reduction();
  int64_t last_unit() const { return static_cast<int64_t>(units_.size()) - 1; }

  Copies copies_;
  Group& group_;  // of this rank's copy
  ledger::Ledger& ledger_;
  const bool reshards_;
  bool first_stays_ = false;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<Run>> state_runs_;
  std::map<const c10::StorageImpl*, Run*> by_storage_;
  std::vector<Share> shares_;
  std::vector<std::pair<std::string, at::Tensor>> whole_states_;
  std::vector<Run*> open_;
  int64_t lowest_trained_ = 0;  // unit
  int64_t contributors_ = 0;    // of the round and of this copy; 0: there is none
  bool is_last_ = false;        // of the rounds of a step
  int64_t ahead_ = -1;          // the unit that is fetched before its turn; -1: none
  int64_t behind_ = 0;          // units above have had their backward pass in this round
  std::unique_ptr<Reduction> reduction_;
};

}  // namespace fathom::dist
