// Goes through the operators of each step, and writes out the largest instant.
#include "plan/estimate/analytic.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "config/shards.h"
#include "plan/estimate/alive.h"
#include "plan/estimate/gradients_beside.h"
#include "plan/estimate/shares.h"
#include "plan/estimate/single_updates.h"
#include "plan/estimate/standing.h"
#include "plan/estimate/step_operators.h"

namespace fathom::plan {
namespace {

using footprint::Bytes;
using footprint::Tensors;
using footprint::update_footprint;
using memory::Component;

class Walk {
 public:
  Walk(const arch::Run& run, const Target& target, const Workload& workload)
      : checkpoints_(run.config.gradient_checkpointing),
        gradients_stand_(run.config.num_processes > 1 && !config::is_shared(run.config)),
        keeps_units_(!run.config.reshard_after_forward),
        first_stays_(first_unit_stays(run.architecture)),
        shares_(unit_shares(run)),
        standing_(standing(run, target, workload)),
        loading_(loading(run, target)) {
    const StepOperators operators(run, target);
    const bool cuda = target.device == config::Device::kCuda, scales_loss = run.precision.computed == DType::kF16;
    if (run.config.optimizer_in_backward) single_updates_.emplace(run.config, cuda);
    if (!single_updates_) updates_ = update_footprint(run.config, trained_sizes(run.parameters), cuda, scales_loss);
    for (const schedule::StepShape& step : workload.steps) {
      std::vector<BatchOperators>& batches = steps_.emplace_back();
      for (const schedule::BatchShape& batch : step) batches.push_back(operators.of_batch(batch, /*gradients=*/true));
    }
    for (const auto& batch : workload.evaluations) evaluations_.push_back(operators.of_batch(batch, false));
    for (const auto& answers : workload.schedule.answers) evaluations_.push_back(operators.of_answers(answers));
  }

  // Once for the figures, and once more for what is alive at the largest instant.
  Analytic largest() {
    play();
    sought_ = peak_;
    play();
    analytic_.terms = terms_of(alive_);
    return std::move(analytic_);
  }

 private:
  void play() {
    for (std::vector<Alive>* list : {&kept_, &made_, &graph_}) list->clear();
    now_ = {};
    instants_ = 0;
    const auto hold_standing = [&](bool of_kernels) {
      for (const Bytes& tensor : standing_)
        if ((tensor.component == Component::kKernels) == of_kernels) hold(kept_, tensor, 0);
    };
    hold_standing(/*of_kernels=*/false);
    for (const Tensors& moment : loading_) instant({"load", "the base"}, {&moment});
    hold_standing(/*of_kernels=*/true);  // workspaces come with the first product
    instant({"start", ""}, {});
    for (const std::vector<BatchOperators>& step : steps_) {
      for (size_t i = 0; i < step.size(); ++i) {
        adds_to_shares_ = i > 0;
        micro_batch(step[i], /*later=*/(i > 0 || gradients_stand_) && shares_.empty());
      }
      instant({"optimizer step", ""}, {});
      for (const Tensors& moment : updates_) instant({"optimizer step", ""}, {&moment});
      release(made_, 0);
    }
    for (const BatchOperators& batch : evaluations_) evaluate(batch);
  }

  // The unit that computes, and the one that comes; with `kept` those before them too.
  void gather(int64_t unit, int64_t next, bool kept = false) {
    release(gathered_, 0);
    for (int64_t each = 0; each < std::ssize(shares_); ++each) {
      const bool stays = each == 0 ? first_stays_ : kept && each < unit;
      const bool computes = each > 0 && (each == unit || each == next);
      if (stays || computes) hold(gathered_, shares_[static_cast<size_t>(each)].gathered, 0);
    }
  }
  // The unit's gradients are there, and go to where they are kept while the next unit computes; those of the unit
  // before have gone there, and are added up over copies.
  void reduce(int64_t unit) {
    if (shares_.empty()) return;
    end_reduction();
    release(of_unit_, 0);
    hold(reduced_, shares_[static_cast<size_t>(unit)].reduced, 0);
    if (unit + 1 < std::ssize(shares_)) hold(reduced_, shares_[static_cast<size_t>(unit + 1)].summed, 0);
    reduces_ = unit;
  }
  // What stays of gradients is added up beside what came of them.
  void end_reduction() {
    if (reduces_ >= 0 && !adds_to_shares_) hold(made_, shares_[static_cast<size_t>(reduces_)].gradient, 0);
    if (reduces_ >= 0) instant({"backward pass", "what others read"}, {});
    release(reduced_, 0);
    reduces_ = -1;
  }
  std::vector<Alive>& gradients() { return shares_.empty() ? made_ : of_unit_; }

  // later: the gradients are there, and what is made is added to them.
  void micro_batch(const BatchOperators& batch, bool later) {
    const int64_t layers = std::ssize(batch.layers);
    gather(layers, layers + 1, keeps_units_);
    begin(batch.loss, 0);
    begin({}, 0);
    hold(checkpoints_ ? graph_ : kept_, batch.read_first(), 0);  // what runs a layer again holds it as long
    keep_layers(batch);
    begin(batch.last_norm.footprint.kept, 0);
    begin(batch.head.footprint.kept, 0);
    const size_t made = made_.size();
    head(batch, later);
    reduce(layers + 1);
    const size_t graph = graph_.size();
    for (int64_t layer = layers; layer > 0 && batch.has_backward(layer); --layer) layer_backward(batch, layer, later);
    release(graph_, graph);
    end();  // of what layers read
    gather(0, 0);
    add_gradients(batch.encoder.bias_gradients, later);
    if (batch.trains_embedding) {
      begin({}, 0);
      backward(batch.positions, 0, {&batch.stack_of(1).stream_gradient}, later);
      begin({}, 0);
      backward(batch.embedding, 0, {&batch.stack_of(1).stream_gradient}, later);
      if (batch.head_waits) update(batch.head, 0, 0, {});
      reduce(0);
    }
    release(graph_, 0);
    release(gathered_, 0);
    end_reduction();
    end();  // of the loss
    if (later) release(made_, made);
  }

  // What layers keep of the forward pass, and what they take in it where most is kept.
  void keep_layers(const BatchOperators& batch) {
    const int64_t layers = std::ssize(batch.layers);
    for (int64_t layer = 1; layer <= layers; ++layer) {
      if (batch.reads_encoder_first(layer)) {
        begin(batch.encoder_norm.footprint.kept, 0);
        hold(kept_, batch.decoder.read, 0);
      }
      if (!batch.has_backward(layer)) continue;
      if (checkpoints_) {
        begin(batch.stack_of(layer).checkpoint, layer);
        if (layer == layers || layer == batch.encoder_layers) forward_once(batch, layer);
        continue;
      }
      for (const Operator& each : batch.of_layer(layer)) {
        if (layer == layers) forward(each, layer, {&batch.inputs_of_last});
        begin(each.footprint.kept, layer);
        hold(graph_, each.lasting, layer);
      }
    }
  }

  // The loss forward and backward, and the norm before it.
  void head(const BatchOperators& batch, bool later) {
    const int64_t layers = std::ssize(batch.layers);
    const size_t copies = kept_.size(), made = made_.size();
    if (checkpoints_) hold_copies(batch, layers);
    std::vector<Alive>& its = batch.head_waits && !shares_.empty() ? graph_ : gradients();  // waits for the embedding's
    const footprint::Footprint& head = batch.head.footprint;
    const bool late = batch.head.makes_gradients_late, adds = later && !batch.head_waits;
    for (const Tensors& moment : head.forward) {
      if (!late && &moment == &head.forward.back()) hold(its, batch.head.gradients, 0);
      instant({"forward pass", "the loss"}, {&moment});
    }
    if (adds && !late) release(made_, made);
    release(kept_, copies);
    for (const Tensors& moment : head.before_gradients) instant({"backward pass", "the loss"}, {&moment});
    if (late) hold(its, batch.head.gradients, 0);
    for (const Tensors& moment : head.backward) instant({"backward pass", "the loss"}, {&moment});
    if (adds) release(made_, made);
    end();  // of the head
    const Beside last{.of_input = &batch.stack_of(layers).stream_gradient};
    if (!batch.head_waits) update(batch.head, made, 0, last);
    batch.has_backward(layers) ? backward(batch.last_norm, 0, last, later) : end();
  }

  void layer_backward(const BatchOperators& batch, int64_t layer, bool later) {
    gather(layer, layer - 1, keeps_units_);
    const Operators& operators = batch.of_layer(layer);
    const size_t graph = graph_.size();
    if (checkpoints_) {
      end();
      for (const Operator& each : operators) hold(graph_, each.lasting, layer);
      forward_again(batch, layer);
      begin(batch.stack_of(layer).checkpoint, layer);  // the output, made again
      hold_input(batch, layer);
      for (const Operator& each : operators) begin(each.footprint.kept, layer);
    }
    for (auto each = operators.rbegin(); each != operators.rend(); ++each) {
      const bool goes_on = std::next(each) != operators.rend() && !std::next(each)->made_with.empty();
      backward(*each, layer, gradients_beside(batch, *each, layer, checkpoints_), later, goes_on);
    }
    if (checkpoints_) {
      end();
      release(graph_, graph);
    }
    if (batch.reads_encoder_first(layer)) {
      hold(graph_, batch.embedded_targets, 0);
      add_gradients(batch.decoder.bias_gradients, later);
      backward(batch.encoder_norm, 0, {}, later);
    }
    reduce(layer);
  }

  // beside: gradients, where it runs again, or what it reads and nobody keeps; null: nothing.
  void forward(const Operator& each, int64_t layer, const Beside& beside) {
    for (const Tensors& moment : each.footprint.forward)
      instant({"forward pass", each.part, layer}, {&moment, beside.stream, beside.source_above, beside.biases});
  }
  // Of a layer that will run again, beside the copies of weights that those so far have made.
  void forward_once(const BatchOperators& batch, int64_t layer) {
    const size_t before = kept_.size();
    hold_copies(batch, layer - 1);
    for (const Operator& each : batch.of_layer(layer)) hold_copies(each, layer), forward(each, layer, {});
    release(kept_, before);
  }
  void forward_again(const BatchOperators& batch, int64_t layer) {
    const size_t before = kept_.size();
    hold_input(batch, layer);
    for (const Operator& each : batch.of_layer(layer)) {
      forward(each, layer, gradients_beside(batch, Operator(), layer, checkpoints_));
      hold(kept_, each.footprint.kept, layer);
    }
    release(kept_, before);
  }
  // Of a layer that runs again, unless it is what its first operator keeps.
  void hold_input(const BatchOperators& batch, int64_t layer) {
    if (!batch.of_layer(layer).front().keeps_stream) hold(kept_, batch.stack_of(layer).checkpoint, layer);
  }

  // goes_on: the next operator's gradients are made by the same function.
  void backward(const Operator& each, int64_t layer, const Beside& beside, bool later, bool goes_on = false) {
    const size_t made = made_.size();
    const Place place = {"backward pass", each.part, layer};
    for (const Tensors& moment : each.footprint.before_gradients) instant_beside(place, &moment, each, beside, {});
    if (!later) hold(gradients(), each.gradients, layer);
    const Tensors *added = later ? &each.gradients : nullptr, *added_with = later ? &each.made_with : nullptr;
    for (const Tensors& moment : each.footprint.backward)
      instant_beside(place, &moment, each, beside, {added, added_with});
    end();
    goes_on ? void(not_updated_ = made) : update(each, made, layer, beside);
  }
  // Those that no operator's pass makes alone: of biases by distance.
  void add_gradients(const Tensors& made, bool later) {
    if (!later) hold(gradients(), made, 0);
    if (single_updates_) release(made_, made_.size() - made.size());
  }
  // Where parameters are updated as soon as their gradients are there, which are the latest of those that were made.
  void update(const Operator& each, size_t made, int64_t layer, const Beside& beside) {
    if (!single_updates_) return;
    for (const Tensors* moment : single_updates_->of(each))
      instant_beside({"backward pass", "an update", layer}, moment, each, beside, {beside.of_input});
    release(made_, std::exchange(not_updated_, std::nullopt).value_or(made));
  }

  // Autocast's copies of trained weights, which stay until a forward pass ends, whatever else is kept; of shared ones
  // none are kept.
  void hold_copies(const Operator& each, int64_t layer) {
    for (const Bytes& kept : each.footprint.kept)
      if (shares_.empty() && kept.component == Component::kFunctionality) hold(kept_, kept, layer);
  }
  void hold_copies(const BatchOperators& batch, int64_t last_layer) {
    for (int64_t layer = 1; layer <= last_layer; ++layer)
      for (const Operator& each : batch.of_layer(layer)) hold_copies(each, layer);
  }

  void evaluate(const BatchOperators& batch) {
    const size_t before = kept_.size();
    const bool answers = !batch.answers.empty();
    const char* pass = answers ? "answers, first pass" : "evaluation";
    hold(kept_, batch.answers, 0);
    for (int64_t layer = 1; layer <= std::ssize(batch.layers); ++layer) {
      const bool encodes = layer <= batch.encoder_layers, first = layer == 1 || layer == batch.encoder_layers + 1;
      const BatchOperators::Stack& stack = batch.stack_of(layer);
      gather(layer, layer + 1);
      const Tensors& of_other = encodes ? batch.embedded_targets : batch.encoded;
      const bool holds_sources = encodes ? !first : first && !answers;  // besides the input
      const Tensors* sources = holds_sources ? &batch.embedded_sources : nullptr;
      for (const Operator& each : batch.of_layer(layer)) {
        hold_copies(each, layer);
        for (const Tensors& moment : each.footprint.forward)
          instant({pass, each.part, layer}, {&moment, &stack.checkpoint, &stack.read, &of_other, sources});
      }
      if (!encodes) hold(kept_, batch.source_values, layer);
    }
    const Tensors *stream = answers ? &batch.decoder.checkpoint : nullptr,
                  *encoded = answers ? &batch.encoded : nullptr;
    gather(std::ssize(batch.layers) + 1, 0);
    for (const Tensors& moment : batch.head.footprint.forward)
      instant({pass, batch.head.part}, {&moment, stream, encoded});
    release(gathered_, 0);
    release(kept_, before);
  }

  void hold(std::vector<Alive>& list, const Bytes& tensor, int64_t layer) {
    const int64_t bytes = value_of(tensor.product);
    if (bytes == 0) return;
    list.push_back({&tensor, tensor.component, layer, bytes});
    int64_t& now = now_[tensor.component];
    now = checked_add(now, bytes, tensor.what);
    analytic_.maximum[tensor.component] = std::max(analytic_.maximum[tensor.component], now);
  }
  void hold(std::vector<Alive>& list, const Tensors& tensors, int64_t layer) {
    for (const Bytes& tensor : tensors) hold(list, tensor, layer);
  }
  void release(std::vector<Alive>& list, size_t size) {
    for (; list.size() > size; list.pop_back()) now_[list.back().component] -= list.back().bytes;
  }
  // What an operator keeps, and its end: the last that began ends first.
  void begin(const Tensors& kept, int64_t layer) {
    begun_.push_back(kept_.size());
    for (const Bytes& tensor : kept)  // of shared weights autocast keeps no copies
      if (shares_.empty() || tensor.component != Component::kFunctionality) hold(kept_, tensor, layer);
  }
  void end() {
    release(kept_, begun_.back());
    begun_.pop_back();
  }

  void instant_beside(const Place& place, const Tensors* moment, const Operator& each, const Beside& of,
                      const std::array<const Tensors*, 2>& more) {
    instant(place, {moment, &each.waiting, of.stream, of.output, of.source_above, of.source_here, of.biases, more[0],
                    more[1]});
  }

  // With what is taken at this instant besides; null: nothing.
  void instant(const Place& place, std::initializer_list<const Tensors*> taken) {
    memory::ComponentBytes at = now_;
    std::vector<Alive> temporaries;
    for (const Tensors* moment : taken) {
      if (moment == nullptr) continue;
      for (const Bytes& tensor : *moment) {
        const bool copy = tensor.component == Component::kFunctionality;
        const Component component = copy ? tensor.component : Component::kTemporaryBuffers;
        const int64_t bytes = value_of(tensor.product);
        at[component] = checked_add(at[component], bytes, tensor.what);
        if (bytes > 0 && instants_ == sought_) temporaries.push_back({&tensor, component, place.layer, bytes});
      }
    }
    for (const Component component : {Component::kFunctionality, Component::kTemporaryBuffers})
      analytic_.maximum[component] = std::max(analytic_.maximum[component], at[component]);
    int64_t total = 0;
    for (const Component component : memory::kComponents) total = checked_add(total, at[component], "the plan's peak");
    if (total > analytic_.peak) {
      analytic_.peak = total;
      analytic_.at_peak = at;
      analytic_.instant = place.in_words();
      peak_ = instants_;
    }
    if (instants_++ != sought_) return;
    for (const auto* list : {&kept_, &made_, &gathered_, &of_unit_, &reduced_, &graph_, &temporaries})
      alive_.insert(alive_.end(), list->begin(), list->end());
  }

  const bool checkpoints_, gradients_stand_, keeps_units_, first_stays_;
  const std::vector<UnitShare> shares_;  // of a model that processes share
  const Tensors standing_;
  const std::vector<Tensors> loading_;
  std::vector<Tensors> updates_;
  std::optional<SingleUpdates> single_updates_;  // where parameters are updated in the backward pass
  std::vector<std::vector<BatchOperators>> steps_;
  std::vector<BatchOperators> evaluations_;

  std::vector<Alive> kept_, made_;                   // for backward passes, the latest last; gradients
  std::vector<Alive> gathered_, of_unit_, reduced_;  // units that are there; gradients of one, and of one on its way
  std::optional<size_t> not_updated_;  // where in made_ gradients begin that wait for others of their function
  std::vector<Alive> graph_;           // for the whole backward pass, of a batch or of a layer that runs again
  std::vector<size_t> begun_;          // where in kept_ what each operator keeps begins
  bool adds_to_shares_ = false;        // of gradients, which a micro-batch before has made
  int64_t reduces_ = -1;               // the unit whose gradients are on their way; -1: none
  memory::ComponentBytes now_;
  Analytic analytic_;
  int64_t instants_ = 0, peak_ = 0, sought_ = -1;
  std::vector<Alive> alive_;  // at the instant that is sought
};

}  // namespace

Analytic estimate_analytic(const arch::Run& run, const Target& target, const Workload& workload) {
  return Walk(run, target, workload).largest();
}

}  // namespace fathom::plan
