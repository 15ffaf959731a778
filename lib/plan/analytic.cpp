// Goes through the operators of each step, and writes out the largest instant.
#include "plan/analytic.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arch/precision.h"
#include "base/bytes.h"
#include "plan/standing.h"
#include "plan/step_operators.h"

namespace fathom::plan {
namespace {

using footprint::Bytes;
using footprint::Tensors;
using memory::Component;

// A tensor, while it is there.
struct Alive {
  const Bytes* tensor;
  Component component;
  int64_t layer;  // from 1; 0: it belongs to none
  int64_t bytes;
};

struct Place {
  const char *pass, *part;
  int64_t layer = 0;
  std::string in_words() const {
    std::string words = pass;
    if (*part != '\0') words.append(" of ").append(part);
    return layer > 0 ? words + " in layer " + std::to_string(layer) : words;
  }
};

class Walk {
 public:
  Walk(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
       const Workload& workload)
      : checkpoints_(run.gradient_checkpointing),
        gradients_stand_(run.num_processes > 1),
        parameters_(arch::parameter_table(architecture, run)) {
    const StepOperators operators(architecture, run, target, parameters_);
    standing_ = standing(architecture, run, target, workload, parameters_);
    loading_ = loading(architecture, run, target, parameters_);
    updates_ = footprint::update_footprint(run, trained_sizes(parameters_), target.device == config::Device::kCuda,
                                           arch::precision_of(architecture, run).computed == DType::kF16);
    for (const schedule::StepShape& step : workload.steps) {
      std::vector<BatchOperators>& batches = steps_.emplace_back();
      for (const schedule::BatchShape& batch : step) batches.push_back(operators.of_batch(batch, /*gradients=*/true));
    }
    for (const schedule::BatchShape& batch : workload.evaluations) {
      evaluations_.push_back(operators.of_batch(batch, /*gradients=*/false));
    }
    for (const schedule::AnswerShape& answers : workload.schedule.answers) {
      evaluations_.push_back(operators.of_answers(answers));
    }
  }

  // Once for the figures, and once more for what is alive at the largest instant.
  Analytic largest() {
    play();
    sought_ = peak_;
    play();
    write_out();
    return std::move(analytic_);
  }

 private:
  void play() {
    kept_.clear();
    made_.clear();
    graph_.clear();
    now_ = {};
    instants_ = 0;
    const auto hold_standing = [&](bool of_kernels) {
      for (const Bytes& tensor : standing_) {
        if ((tensor.component == Component::kKernels) == of_kernels) hold(kept_, tensor, 0);
      }
    };
    hold_standing(/*of_kernels=*/false);
    for (const Tensors& moment : loading_) instant({"load", "the base"}, {&moment});
    hold_standing(/*of_kernels=*/true);  // workspaces come with the first product
    instant({"start", ""}, {});
    for (const std::vector<BatchOperators>& step : steps_) {
      for (size_t i = 0; i < step.size(); ++i) micro_batch(step[i], /*later=*/i > 0 || gradients_stand_);
      instant({"optimizer step", ""}, {});
      for (const Tensors& moment : updates_) instant({"optimizer step", ""}, {&moment});
      release(made_, 0);
    }
    for (const BatchOperators& batch : evaluations_) evaluate(batch);
  }

  // later: the gradients are there, and what is made is added to them.
  void micro_batch(const BatchOperators& batch, bool later) {
    const auto layers = static_cast<int64_t>(batch.layers.size());
    begin(batch.loss, 0);
    hold(graph_, batch.encoder_layers > 0 ? batch.encoder.read : batch.decoder.read, 0);
    for (int64_t layer = 1; layer <= layers; ++layer) {
      if (batch.reads_encoder_first(layer)) {
        begin(batch.encoder_norm.footprint.kept, 0);
        hold(kept_, batch.decoder.read, 0);
      }
      if (!batch.has_backward(layer)) continue;
      if (checkpoints_) {
        begin(batch.stack_of(layer).checkpoint, layer);
      } else {
        for (const Operator& each : batch.of_layer(layer)) {
          if (layer == layers) forward(each, layer, nullptr);
          begin(each.footprint.kept, layer);
          hold(graph_, each.lasting, layer);
        }
      }
    }
    begin(batch.last_norm.footprint.kept, 0);
    begin(batch.head.footprint.kept, 0);
    const size_t copies = kept_.size();
    for (int64_t layer = 1; checkpoints_ && layer <= layers; ++layer) {
      for (const Operator& each : batch.of_layer(layer)) hold_copies(each, layer);
    }
    const size_t made = made_.size();
    for (const Tensors& moment : batch.head.footprint.forward) {
      if (&moment == &batch.head.footprint.forward.back()) hold(made_, batch.head.gradients, 0);
      instant({"forward pass", "the loss"}, {&moment});
    }
    if (later && !batch.head_waits) release(made_, made);
    release(kept_, copies);
    for (const Tensors& moment : batch.head.footprint.backward) instant({"backward pass", "the loss"}, {&moment});
    end();  // of the head
    if (batch.has_backward(layers)) {
      backward(batch.last_norm, 0, {}, later);
    } else {
      end();
    }
    for (int64_t layer = layers; layer > 0 && batch.has_backward(layer); --layer) {
      const Operators& operators = batch.of_layer(layer);
      const size_t graph = graph_.size();
      if (checkpoints_) {
        end();
        for (const Operator& each : operators) hold(graph_, each.lasting, layer);
        if (layer == layers) forward_again(batch, layer);
        begin(batch.stack_of(layer).checkpoint, layer);  // the output, made again
        hold_input(batch, layer);
        for (const Operator& each : operators) begin(each.footprint.kept, layer);
      }
      for (auto each = operators.rbegin(); each != operators.rend(); ++each) {
        backward(*each, layer, gradients_beside(batch, *each, layer), later);
      }
      if (checkpoints_) {
        end();
        release(graph_, graph);
      }
      if (batch.reads_encoder_first(layer)) {
        hold(graph_, batch.embedded_targets, 0);
        if (!later) hold(made_, batch.decoder.bias_gradients, 0);
        backward(batch.encoder_norm, 0, {}, later);
      }
    }
    if (!later) hold(made_, batch.encoder.bias_gradients, 0);
    release(graph_, 0);
    if (batch.trains_embedding) {
      begin({}, 0);
      backward(batch.embedding, 0, {&batch.stack_of(1).stream_gradient}, later);
    }
    end();  // of the loss
    if (later) release(made_, made);
  }

  // In the last layer, where all that is kept is there. gradient: of its output, where it runs again; else null.
  void forward(const Operator& each, int64_t layer, const Tensors* gradient) {
    for (const Tensors& moment : each.footprint.forward) {
      instant({"forward pass", each.part, layer}, {&moment, &each.waiting, gradient});
    }
  }
  void forward_again(const BatchOperators& batch, int64_t layer) {
    const size_t before = kept_.size();
    hold_input(batch, layer);
    for (const Operator& each : batch.of_layer(layer)) {
      forward(each, layer, &batch.stack_of(layer).stream_gradient);
      hold(kept_, each.footprint.kept, layer);
    }
    release(kept_, before);
  }
  // Of a layer that runs again, unless it is what its first operator keeps.
  void hold_input(const BatchOperators& batch, int64_t layer) {
    if (!batch.of_layer(layer).front().keeps_stream) hold(kept_, batch.stack_of(layer).checkpoint, layer);
  }

  // Of the residual stream, of a layer's output, of what an encoder made: by the layers above, by this one; of biases.
  struct Beside {
    const Tensors *stream = nullptr, *output = nullptr, *source_above = nullptr, *source_here = nullptr;
    const Tensors* biases = nullptr;
  };
  // What a checkpointed layer makes is added to what is there when all of it is made, else at once.
  Beside gradients_beside(const BatchOperators& batch, const Operator& each, int64_t layer) const {
    Beside beside;
    const BatchOperators::Stack& stack = batch.stack_of(layer);
    if (!each.takes_stream_gradient) beside.stream = &stack.stream_gradient;
    if (checkpoints_ && each.another_follows) beside.output = &stack.output_gradient;
    if (layer != batch.encoder_layers && layer < std::ssize(batch.layers)) beside.biases = &stack.bias_sums;
    if (layer <= batch.encoder_layers) return beside;
    if (layer < std::ssize(batch.layers)) beside.source_above = &batch.encoded_gradient;
    if (each.follows_source && (checkpoints_ || beside.source_above == nullptr)) {
      beside.source_here = &batch.encoded_gradient;
    }
    return beside;
  }

  void backward(const Operator& each, int64_t layer, const Beside& beside, bool later) {
    if (!later) hold(made_, each.gradients, layer);
    const Tensors *added = later ? &each.gradients : nullptr, *added_with = later ? &each.made_with : nullptr;
    for (const Tensors& moment : each.footprint.backward) {
      instant({"backward pass", each.part, layer},
              {&moment, &each.waiting, beside.stream, beside.output, beside.source_above, beside.source_here,
               beside.biases, added, added_with});
    }
    end();
  }

  // Autocast's copies of trained weights, which stay until a forward pass ends, whatever else is kept.
  void hold_copies(const Operator& each, int64_t layer) {
    for (const Bytes& kept : each.footprint.kept) {
      if (kept.component == Component::kFunctionality) hold(kept_, kept, layer);
    }
  }

  // What waits for an operator is there forward too, as a value of the same size.
  void evaluate(const BatchOperators& batch) {
    const size_t before = kept_.size();
    const bool answers = !batch.answers.empty();
    const char* pass = answers ? "answers, first pass" : "evaluation";
    hold(kept_, batch.answers, 0);
    for (int64_t layer = 1; layer <= std::ssize(batch.layers); ++layer) {
      const bool encodes = layer <= batch.encoder_layers, first = layer == 1 || layer == batch.encoder_layers + 1;
      const BatchOperators::Stack& stack = batch.stack_of(layer);
      const Tensors& of_other = encodes ? batch.embedded_targets : batch.encoded;
      const bool holds_sources = encodes ? !first : first && !answers;  // besides the input
      const Tensors* sources = holds_sources ? &batch.embedded_sources : nullptr;
      for (const Operator& each : batch.of_layer(layer)) {
        hold_copies(each, layer);
        for (const Tensors& moment : each.footprint.forward) {
          instant({pass, each.part, layer},
                  {&moment, &each.waiting, &stack.checkpoint, &stack.read, &of_other, sources});
        }
      }
      if (!encodes) hold(kept_, batch.source_values, layer);
    }
    const Tensors *stream = answers ? &batch.decoder.checkpoint : nullptr,
                  *encoded = answers ? &batch.encoded : nullptr;
    for (const Tensors& moment : batch.head.footprint.forward) {
      instant({pass, batch.head.part}, {&moment, stream, encoded});
    }
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
    hold(kept_, kept, layer);
  }
  void end() {
    release(kept_, begun_.back());
    begun_.pop_back();
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
    for (const Component component : {Component::kFunctionality, Component::kTemporaryBuffers}) {
      analytic_.maximum[component] = std::max(analytic_.maximum[component], at[component]);
    }
    int64_t total = 0;
    for (const Component component : memory::kComponents) total = checked_add(total, at[component], "the plan's peak");
    if (total > analytic_.peak) {
      analytic_.peak = total;
      analytic_.at_peak = at;
      analytic_.instant = place.in_words();
      peak_ = instants_;
    }
    if (instants_++ != sought_) return;
    for (const auto* list : {&kept_, &made_, &graph_, &temporaries})
      alive_.insert(alive_.end(), list->begin(), list->end());
  }

  // Tensors of one name and size as one line, with the number of layers that hold so many of them each.
  void write_out() {
    struct Line {
      const Alive* first;
      int64_t count = 0;
      std::set<int64_t> layers = {};
    };
    for (const Component component : memory::kComponents) {
      std::vector<Line> lines;
      for (const Alive& alive : alive_) {
        if (alive.component != component) continue;
        auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
          return (line.first->layer > 0) == (alive.layer > 0) &&
                 std::strcmp(line.first->tensor->what, alive.tensor->what) == 0 &&
                 line.first->tensor->product == alive.tensor->product;
        });
        if (same == lines.end()) same = lines.insert(lines.end(), {&alive});
        same->count += 1;
        if (alive.layer > 0) same->layers.insert(alive.layer);
      }
      for (const Line& line : lines) {
        auto layers = static_cast<int64_t>(line.layers.size());
        if (layers > 0 && line.count % layers != 0) layers = 0;
        const int64_t in_one = layers == 0 ? line.count : line.count / layers;
        Product product = line.first->tensor->product;
        if (in_one > 1) product.insert(product.begin(), {in_one, "of"});
        analytic_.terms.push_back({component, line.first->tensor->what, format_product(product), layers,
                                   line.count * line.first->bytes, line.first->tensor->source});
      }
    }
  }

  const bool checkpoints_, gradients_stand_;
  const arch::ParameterTable parameters_;
  Tensors standing_;
  std::vector<Tensors> loading_, updates_;
  std::vector<std::vector<BatchOperators>> steps_;
  std::vector<BatchOperators> evaluations_;

  std::vector<Alive> kept_, made_;  // for backward passes, the latest last; gradients
  std::vector<Alive> graph_;        // for the whole backward pass, of a batch or of a layer that runs again
  std::vector<size_t> begun_;       // where in kept_ what each operator keeps begins
  memory::ComponentBytes now_;
  Analytic analytic_;
  int64_t instants_ = 0, peak_ = 0, sought_ = -1;
  std::vector<Alive> alive_;  // at the instant that is sought
};

}  // namespace

Analytic estimate_analytic(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
                           const Workload& workload) {
  return Walk(architecture, run, target, workload).largest();
}

}  // namespace fathom::plan
