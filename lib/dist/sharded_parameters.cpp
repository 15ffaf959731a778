// Storages whose memory comes and goes under parameters that stay where they are to autograd.
#include "dist/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "base/split_mix.h"
#include "ledger/operator_repeats.h"

namespace fathom::dist {
namespace {

constexpr int64_t kNumbersOfCasts = 32;  // in 64 bytes

// With numbers of a matrix, or of several [M, N, D], whose rows do not lie end to end, from `first` on in the order of
// its rows.
void fill_from_turned(const at::Tensor& numbers, int64_t first, const at::Tensor& matrix_ND) {
  const int64_t rows = matrix_ND.size(-2), columns = matrix_ND.size(-1);
  for (int64_t done = 0; done < numbers.numel();) {
    const int64_t row = (first + done) / columns, column = (first + done) % columns;
    const int64_t count = std::min(columns - column, numbers.numel() - done);
    const at::Tensor its = matrix_ND.dim() == 3 ? matrix_ND.select(0, row / rows) : matrix_ND;
    numbers.narrow(0, done, count).copy_(its.select(0, row % rows).narrow(0, column, count));
    done += count;
  }
}

}  // namespace

// Trained parameters of one type and block that passes read alike, frozen ones of any types, and what goes with them.
struct ShardedParameters::Run : ShardedRun {
  using ShardedRun::ShardedRun;
  bool trained = false;
  std::unique_ptr<ShardedRun> casts;  // set: what passes read instead
  ShardedRun& in_passes() { return casts ? *casts : *this; }
  std::vector<Part> shares;  // of its parameters, where they are trained
  at::Tensor gradient;       // [piece], likewise, from the first round of a step on
};

struct ShardedParameters::Unit {
  std::vector<std::unique_ptr<Run>> runs;
};

// Gradients of a unit on their way.
struct ShardedParameters::Reduction {
  struct OfRun {
    Run* run = nullptr;
    std::vector<at::Tensor> own;  // of each item, [n]; none where this rank does not contribute
    at::Tensor others;            // a piece of each other rank, by ranks, contributors or not
  };
  std::vector<OfRun> runs;
  std::unique_ptr<Transfer> transfer;
};

ShardedParameters::ShardedParameters(Group& all, int64_t shards, ledger::Ledger& ledger, bool reshards)
    : copies_(all, shards, ledger), group_(copies_.sharers()), ledger_(ledger), reshards_(reshards) {}

ShardedParameters::~ShardedParameters() = default;

// Takes this rank's piece, and adds views of it. shares: whole parameters as yet.
void ShardedParameters::add_shares(Run& run, std::vector<Share> shares) {
  at::Tensor piece = at::empty({run.piece()}, run.options());
  ledger_.claim(piece, memory::Component::kWeights, "a share of unit " + std::to_string(run.unit()));
  for (size_t index = 0; index < shares.size(); ++index) {
    Share& share = shares[index];
    const Range whole = run.items()[index].range, range = overlap(whole, run.own());
    if (range.count == 0 && !run.trained) continue;
    const int64_t first = range.count > 0 ? range.first - run.own().first : 0;
    const at::Tensor numbers = piece.narrow(0, first, range.count);
    if (run.trained) {
      share.first = range.count > 0 ? range.first - whole.first : 0;
      run.shares.push_back({first, numbers});
    }
    share.tensor = run.trained ? numbers : numbers.view(share.tensor.scalar_type());
    share.cast.reset();
    shares_.push_back(std::move(share));
  }
  run.add_part({0, std::move(piece)});
  by_storage_[run.storage()] = &run;
}

void ShardedParameters::adopt(const std::vector<model::Parameter>& parameters, bool first_stays,
                              const BlockOf& block_of) {
  const at::NoGradGuard no_gradients;
  first_stays_ = first_stays;
  int64_t units = 0, trained = 0;
  for (const model::Parameter& parameter : parameters) units = std::max(units, parameter.unit + 1);
  std::vector<std::vector<Share>> of_units(static_cast<size_t>(units));
  for (const model::Parameter& parameter : parameters) {
    const int64_t place = parameter.trained ? trained++ : 0;
    of_units[static_cast<size_t>(parameter.unit)].push_back({parameter, place, 0, parameter.tensor.numel()});
  }
  lowest_trained_ = units;
  for (int64_t number = 0; number < units; ++number) {
    Unit& unit = *units_.emplace_back(std::make_unique<Unit>());
    // Frozen ones first, then type by type, block by block, and as passes read them.
    std::map<std::tuple<bool, at::ScalarType, int64_t, bool>, std::vector<Share>> of_runs;
    for (const Share& parameter : of_units[static_cast<size_t>(number)]) {
      const at::ScalarType type = parameter.trained ? parameter.tensor.scalar_type() : at::kByte;
      const int64_t block = parameter.trained ? block_of(parameter.whole) : 1;
      of_runs[{parameter.trained, type, block, parameter.cast.defined()}].push_back(parameter);
      if (parameter.trained) lowest_trained_ = std::min(lowest_trained_, number);
    }
    for (const auto& [kind, its] : of_runs) {
      const auto& [is_trained, type, block, has_casts] = kind;
      const at::TensorOptions options = its.front().tensor.options();
      Run& run = *unit.runs.emplace_back(std::make_unique<Run>(group_, ledger_, number, options, type));
      run.trained = is_trained;
      std::vector<std::pair<std::string, at::Tensor>> tensors;
      std::vector<at::Tensor> casts;
      for (const Share& parameter : its) {
        tensors.emplace_back(parameter.name, parameter.tensor);
        casts.push_back(parameter.cast);
      }
      // Casts begin where cache lines do, too.
      run.lay_out(tensors, has_casts ? std::max(block, kNumbersOfCasts) : block);
      add_shares(run, its);
      if (!has_casts) continue;
      run.casts = std::make_unique<ShardedRun>(group_, ledger_, number, run.options(), casts.front().scalar_type());
      run.casts->lay_out_as_casts(run, casts);
    }
  }
  behind_ = last_unit();
}

void ShardedParameters::open(const at::Tensor& tensor) {
  Run& run = *by_storage_.at(tensor.storage().unsafeGetStorageImpl());
  if (run.is_there()) return;
  if (!open_.empty() && open_.front()->unit() != run.unit()) close();
  open_.push_back(&run);
  if (!run.is_filled()) return run.take();
  run.begin_gather();
  run.finish_gather();
}

void ShardedParameters::close() {
  for (Run* run : open_) {
    run->store();
    run->let_go();
  }
  open_.clear();
}

void ShardedParameters::fill(const at::Tensor& tensor, const at::Tensor& from) {
  const Run& run = *by_storage_.at(tensor.storage().unsafeGetStorageImpl());
  if (run.is_there()) {
    tensor.detach().copy_(from);
    return;
  }
  const at::NoGradGuard no_gradients;
  for (const Kept& kept : run.kept(tensor)) {
    const at::Tensor numbers = kept.bytes.view(tensor.scalar_type());
    const int64_t first = kept.first / tensor.element_size();
    if (tensor.is_contiguous()) {
      numbers.copy_(from.view({-1}).narrow(0, first, numbers.numel()));
    } else {
      fill_from_turned(numbers, first, from.transpose(-1, -2));
    }
  }
}

std::vector<model::UnitKeeper::Kept> ShardedParameters::kept(const at::Tensor& tensor) const {
  return by_storage_.at(tensor.storage().unsafeGetStorageImpl())->kept(tensor);
}

// ---- units, forwards

void ShardedParameters::fetch(int64_t unit) {
  for (const auto& run : units_[static_cast<size_t>(unit)]->runs) run->in_passes().begin_gather();
}

void ShardedParameters::finish_fetch(int64_t unit) {
  for (const auto& run : units_[static_cast<size_t>(unit)]->runs) run->in_passes().finish_gather();
}

void ShardedParameters::let_go(int64_t unit) {
  for (const auto& run : units_[static_cast<size_t>(unit)]->runs) run->in_passes().let_go();
}

void ShardedParameters::before(int64_t unit) {
  if (ahead_ >= 0 && ahead_ != unit) let_go(ahead_);  // of a pass that goes another way
  ahead_ = -1;
  fetch(unit);
  if (unit < last_unit()) {
    ahead_ = unit + 1;
    fetch(ahead_);
  }
  finish_fetch(unit);
}

void ShardedParameters::after(int64_t unit, const at::Tensor& made) {
  const bool trains = contributors_ > 0;
  if (made.defined() && unit < last_unit() && made.requires_grad()) {
    made.register_hook([this, unit](const at::Tensor& /*gradient*/) { reach_backward(unit); });
  }
  // The last layer's weights, and the head's, are the first that the backward pass reads; embeddings it does not read.
  const bool stays = unit == 0 ? first_stays_ : trains && (!reshards_ || unit + 1 >= last_unit());
  if (!stays) let_go(unit);
  if (unit == last_unit() && !trains) let_go(0);
}

void ShardedParameters::idle_pass() {
  for (int64_t unit = 0; unit <= last_unit(); ++unit) {
    before(unit);
    after(unit, {});
  }
}

// ---- and backwards

void ShardedParameters::begin_round(const Round& round) {
  contributors_ = copies_.sharers_among(round.contributors);
  is_last_ = round.is_last;
  behind_ = last_unit();
}

// The gradient of what `unit` made is there: the units behind it have theirs.
void ShardedParameters::reach_backward(int64_t unit) {
  while (behind_ > unit) finish_backward(behind_--);
  if (unit == 0) return;  // embeddings are not read again
  fetch(unit);
  if (unit > std::max<int64_t>(1, lowest_trained_)) fetch(unit - 1);
  finish_fetch(unit);
}

void ShardedParameters::finish_backward(int64_t unit) {
  finish_reduction();
  begin_reduction(*units_[static_cast<size_t>(unit)]);
  if (unit > 0 || !first_stays_) let_go(unit);
}

void ShardedParameters::end_round() {
  while (behind_ >= 0) finish_backward(behind_--);
  let_go(0);
  finish_reduction();
  copies_.end_sums();
  contributors_ = 0;
}

// Where none of this copy has a micro-batch, its ranks have nothing to gather.
void ShardedParameters::idle_round(const Round& round) {
  begin_round(round);
  if (contributors_ > 0) {
    idle_pass();
    for (int64_t unit = last_unit() - 1; unit >= lowest_trained_; --unit) reach_backward(unit);
  }
  end_round();
}

double ShardedParameters::sum(double number) const {
  std::vector<double> numbers{number};
  group_.sum(numbers);
  return numbers.front();
}

void ShardedParameters::begin_reduction(Unit& unit) {
  const at::NoGradGuard no_gradients;
  auto reduction = std::make_unique<Reduction>();
  const int64_t rank = group_.rank();
  const auto ranks = static_cast<size_t>(group_.size());
  std::vector<std::vector<Group::Span>> sent(ranks), received(ranks);
  for (const auto& run : unit.runs) {
    if (!run->trained) continue;
    Reduction::OfRun& of_run = reduction->runs.emplace_back();
    of_run.run = run.get();
    for (const ShardedRun::Item& item : run->items()) {
      if (rank >= contributors_) break;
      at::Tensor& gradient = item.tensor.mutable_grad();
      TORCH_INTERNAL_ASSERT(gradient.defined(), item.name, " has no gradient");
      ledger_.claim(gradient, memory::Component::kGradients, item.name);
      of_run.own.push_back(gradient.contiguous().view({-1}));
      gradient.reset();
    }
    of_run.others = at::empty({(group_.size() - 1) * run->piece()}, run->options());
    ledger_.claim(of_run.others, memory::Component::kFunctionality, "gradients of other processes");
    for (size_t index = 0; index < run->items().size(); ++index) {
      const Range range = run->items()[index].range;
      for (int64_t other = 0; other < group_.size(); ++other) {
        if (other == rank) continue;
        const auto to = static_cast<size_t>(other);
        const Range theirs = overlap(range, run->piece_of(other)), own = overlap(range, run->own());
        if (rank < contributors_ && theirs.count > 0) {
          sent[to].push_back({of_run.own[index], theirs.first - range.first, theirs.count});
        }
        if (other < contributors_ && own.count > 0) {
          const int64_t piece = group_.place_among_others(other) * run->piece();
          received[to].push_back({of_run.others, piece + own.first - run->own().first, own.count});
        }
      }
    }
  }
  if (reduction->runs.empty()) return;
  reduction->transfer = group_.begin_exchange(sent, received);
  reduction_ = std::move(reduction);
}

// In the order of ranks.
void ShardedParameters::finish_reduction() {
  if (!reduction_) return;
  const at::NoGradGuard no_gradients;
  reduction_->transfer->wait();
  std::vector<at::Tensor> gradients;
  for (const Reduction::OfRun& of_run : reduction_->runs) {
    Run& run = *of_run.run;
    const bool is_first = !run.gradient.defined();
    if (is_first) {
      run.gradient =
          contributors_ > 0 ? at::empty({run.piece()}, run.options()) : at::zeros({run.piece()}, run.options());
      ledger_.claim(run.gradient, memory::Component::kGradients, "a share of unit " + std::to_string(run.unit()));
      for (const ShardedRun::Part& share : run.shares) {
        share.numbers.mutable_grad() = run.gradient.narrow(0, share.first, share.numbers.numel());
      }
    }
    const auto add = [&](const Range& range, const at::Tensor& numbers, bool copies) {
      const at::Tensor sum = run.gradient.narrow(0, range.first, range.count);
      copies ? sum.copy_(numbers) : sum.add_(numbers);
    };
    NumberHash kind;
    kind.add(static_cast<uint64_t>(run.piece()));
    kind.add(static_cast<uint64_t>(run.type()));
    for (int64_t rank = 0; rank < contributors_; ++rank) {
      const bool copies = is_first && rank == 0;
      if (rank != group_.rank()) {
        const auto add_others = [&] {
          const int64_t piece = group_.place_among_others(rank) * run.piece();
          add({0, run.piece()}, of_run.others.narrow(0, piece, run.piece()), copies);
        };
        copies ? add_others() : ledger::repeat_in_operator(kind.value(), add_others);
        continue;
      }
      for (size_t index = 0; index < run.items().size(); ++index) {
        const Range whole = run.items()[index].range, own = overlap(whole, run.own());
        if (own.count == 0) continue;
        add({own.first - run.own().first, own.count}, of_run.own[index].narrow(0, own.first - whole.first, own.count),
            copies);
      }
    }
    gradients.push_back(run.gradient);
  }
  reduction_.reset();
  copies_.begin_sums(gradients, is_last_);
}

void ShardedParameters::clear_gradients() {
  for (const auto& unit : units_) {
    for (const auto& run : unit->runs) {
      for (const ShardedRun::Part& share : run->shares) share.numbers.mutable_grad().reset();
      run->gradient.reset();
    }
  }
}

// ---- states of an optimizer

// A kind of them.
struct ShardedParameters::State {
  std::string kind;
  at::ScalarType type = at::kFloat;
  int64_t block = 1;
};

void ShardedParameters::adopt_states(const std::vector<std::pair<std::string, at::Tensor>>& states,
                                     const std::vector<int64_t>& blocks) {
  const std::map<std::string, at::Tensor> own(states.begin(), states.end());
  std::map<std::string, std::vector<State>> of_parameters;
  for (size_t index = 0; index < states.size(); ++index) {
    const auto& [name, tensor] = states[index];
    const size_t dot = name.find('.');
    of_parameters[name.substr(dot + 1)].push_back({name.substr(0, dot), tensor.scalar_type(), blocks[index]});
  }
  for (const auto& unit : units_) {
    for (const auto& run : unit->runs) {
      if (!run->trained) continue;
      for (const State& state : of_parameters[run->items().front().name]) add_states(*run, state, own);
    }
  }
}

// One kind of state of all parameters of a run, which lie as these do.
void ShardedParameters::add_states(const Run& run, const State& kind, const std::map<std::string, at::Tensor>& own) {
  Run& states = *state_runs_.emplace_back(std::make_unique<Run>(group_, ledger_, run.unit(), run.options(), kind.type));
  states.lay_out_as(run, kind.kind, kind.block);
  states.set_filled();
  by_storage_[states.storage()] = &states;
  for (const ShardedRun::Item& item : states.items()) {
    if (const Range range = overlap(item.range, states.own()); range.count > 0) {
      states.add_part({range.first - states.own().first, own.at(item.name)});
    }
    whole_states_.emplace_back(item.name, item.tensor);
  }
}

}  // namespace fathom::dist
