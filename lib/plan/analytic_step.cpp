// From the embedding to the optimizer.
#include "plan/analytic_step.h"

#include <algorithm>
#include <string>

#include "ops/loss_chunk.h"
#include "ops/tied_embedding_part.h"
#include "plan/analytic.h"
#include "plan/analytic_optimizer.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr int64_t kPartColumns = 512;      // ops::HeadGradient multiplies so many at a time on the CPU
constexpr int64_t kUnsortedTokens = 3072;  // LibTorch sorts more than these in the backward pass of an embedding

constexpr const char* kStream = "the sum that runs through the layers; lib/model/decoder_layer.cpp";
constexpr const char* kProduct = "a product with weights, on its way; lib/model/decoder_layer.cpp";
constexpr const char* kValues = "attention keeps values (Vaswani et al. 2017, arXiv 1706.03762)";
constexpr const char* kGate = "SwiGLU keeps gate and up, and makes silu again (Shazeer 2020, arXiv 2002.05202)";
constexpr const char* kHead = "one score for each token of the vocabulary, of a chunk of rows; lib/ops/head_loss.cpp";
constexpr const char* kLoss =
    "the head and its loss, whose gradients are ready when the forward pass ends; lib/ops/head_loss.cpp";
constexpr const char* kRows = "what the head reads: rows that have a target; lib/ops/head_loss.cpp";
constexpr const char* kTiedPart = "added to a tied head's gradient part by part; lib/ops/tied_embedding.cpp";
constexpr const char* kSorted = "embedding_dense_backward sorts the ids of more than 3,072 tokens; LibTorch 2.11";
const std::string kHeadCopy = "autocast's copy of the head";

}  // namespace

bool AccountOfRun::Layer::trains() const {
  for (const Weight* weight : {&q, &k, &v, &o, &gate, &up, &down}) {
    if (weight->adapted || weight->trained || weight->steps > 0) return true;
  }
  return first_norm.trained || second_norm.trained || query_norm.trained || key_norm.trained;
}

AccountOfRun::AccountOfRun(const arch::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload)
    : s_(shape, run, target) {
  std::string prefix;
  const auto weight = [&](const char* name, int64_t rows, int64_t columns, bool bias) {
    const auto trains = [&](const char* ending) {
      return s_.trains(prefix + "self_attn." + name + ending) || s_.trains(prefix + "mlp." + name + ending);
    };
    Weight result(name, rows, columns, bias, trains(".lora_A.weight"), trains(".weight"));
    if (s_.fake_scheme) result.steps = quant::layout_of(*s_.fake_scheme, rows, columns).scales;
    return result;
  };
  const auto norm = [&](const char* name) { return NormWeight{s_.trains(prefix + name + ".weight"), nullptr}; };
  const int64_t width = shape.hidden_size, inner = shape.intermediate_size, q = s_.queries(), k = s_.keys();
  const arch::LayerNorms norms = arch::layer_norms(shape);
  const bool heads = shape.query_key_value_bias, out = shape.output_bias, gates = shape.feed_forward_bias;
  for (int64_t i = 0; i < shape.num_hidden_layers; ++i) {
    prefix = "model.layers." + std::to_string(i) + ".";
    layers_.push_back({weight("q_proj", q, width, heads), weight("k_proj", k, width, heads),
                       weight("v_proj", k, width, heads), weight("o_proj", width, q, out),
                       weight("gate_proj", inner, width, gates), weight("up_proj", inner, width, gates),
                       weight("down_proj", width, inner, gates), norm(norms.attention), norm(norms.feed_forward),
                       norm("self_attn.q_norm"), norm("self_attn.k_norm")});
  }
  last_norm_.trained = s_.trains("model.norm.weight");
  standing(target, workload);
  load();
  load_steps();
}

Product AccountOfRun::scores(int64_t rows, int64_t bytes) const {
  return {{rows, "rows"}, {s_.shape.vocab_size, ""}, {bytes, "bytes"}};
}

Product AccountOfRun::vocabulary(int64_t bytes) const {
  return {{s_.shape.vocab_size, "tokens of the vocabulary"}, {s_.shape.hidden_size, ""}, {bytes, "bytes"}};
}

Value AccountOfRun::embed(Operators& operators) {
  operators.enter("the embedding", 0);
  const Product product = operators.wide(s_.shape.hidden_size, s_.stored_bytes);
  Value stream = {operators.take("stream, from the embedding", kStream, product),
                  operators.new_slot(s_.trains_embedding())};
  if (!stream.slot) return stream;
  operators.remember([this, &operators, output = stream.slot] {
    const Tensor gradient = std::move(output->gradient);
    Tensor made = embedding_gradient(operators);
    if (waiting_head_) made = std::move(waiting_head_);  // which took the embedding's in
    operators.give_gradient(embedding_gradient_, std::move(made));
  });
  return stream;
}

// Of the whole vocabulary, or of a part that is added to a tied head's.
Tensor AccountOfRun::embedding_gradient(Operators& operators) {
  const int64_t all = s_.shape.vocab_size, width = s_.shape.hidden_size, tokens = operators.tokens();
  const int64_t part = waiting_head_ ? ops::tied_part_rows(all, width * s_.stored_bytes) : all;
  Tensor places, made;
  if (part < all) {
    places = operators.take("ids within a part", kTiedPart, {{tokens, "tokens"}, {8, "bytes"}});
    made = operators.take("gradient of a part of the embedding", kTiedPart,
                          {{part + 1, "tokens of a part"}, {width, ""}, {s_.stored_bytes, "bytes"}});
  } else {
    made = operators.take("gradient of the embedding", kGradient, vocabulary(s_.stored_bytes));
  }
  if (s_.cuda && tokens > kUnsortedTokens) {
    const int64_t sums = tokens + tokens / 10;
    const Tensor ids = operators.take("sorted ids", kSorted, {{5, "of"}, {tokens, "tokens"}, {8, "bytes"}});
    const Tensor ends = operators.take("places of partial sums", kSorted, {{sums, "sums"}, {8, "bytes"}});
    const Tensor counts = operators.take("numbers of partial sums", kSorted, {{2, "of"}, {8, "bytes"}});
    operators.take("partial sums", kSorted, {{sums, "sums"}, {width, ""}, {4, "bytes"}});
  }
  return made;
}

LinearInput AccountOfRun::branch_input(Operators& operators, const Value& stream, NormWeight& norm, const char* name) {
  const bool before = s_.shape.norms == arch::NormPlacement::kBefore;
  return operators.rounded_input(
      before ? operators.normed_input(stream, name, norm) : LinearInput(operators.narrowed(stream)),
      s_.shape.hidden_size);
}

Value AccountOfRun::with_branch(Operators& operators, Value branch, const Value& stream, NormWeight& norm,
                                const char* name) {
  if (s_.shape.norms == arch::NormPlacement::kAfter) {
    branch = operators.row_norm(branch, 1, s_.shape.hidden_size, "what is added to the stream, normalised", norm);
  }
  return operators.add(std::move(branch), stream, name);
}

Value AccountOfRun::run_layer(Operators& operators, Layer& layer, const Value& stream) {
  const int64_t number = account_.layer();
  Value middle;
  {
    operators.enter("queries, keys and values", number);
    LinearInput x = branch_input(operators, stream, layer.first_norm, "first norm's output");
    LinearInput attended;
    {
      const auto turned = [&](Weight& weight, int64_t heads, NormWeight& norm, const char* name) {
        Value each = operators.linear(x, weight, "heads, not yet turned", kProduct);
        const int64_t width = heads * s_.shape.head_dim;
        const bool apart = s_.shape.query_key_norm == arch::QueryKeyNorm::kEachHead;
        if (s_.shape.query_key_norm != arch::QueryKeyNorm::kNone) {
          each = operators.row_norm(each, apart ? heads : 1, width, "heads, normalised", norm);
        }
        return operators.rotate(each, width, name);
      };
      const Value q = turned(layer.q, s_.shape.num_attention_heads, layer.query_norm, "queries");
      const Value k = turned(layer.k, s_.shape.num_key_value_heads, layer.key_norm, "keys");
      const Value v = operators.linear(x, layer.v, "values", kValues);
      operators.enter("attention", number);
      attended = operators.rounded_input(LinearInput(operators.attention(q, k, v, s_.shape.window_of(number - 1))),
                                         s_.queries());
    }
    operators.enter("attention's output projection", number);
    middle = with_branch(operators, operators.linear(attended, layer.o, "output of attention's projection", kProduct),
                         stream, layer.first_norm, "stream, after attention");
  }
  operators.enter("gate and up", number);
  LinearInput x = branch_input(operators, middle, layer.second_norm, "second norm's output");
  Value branch;
  {
    const Value gate = operators.linear(x, layer.gate, "gate and up", kGate);
    const Value up = operators.linear(x, layer.up, "gate and up", kGate);
    operators.enter("the gate", number);
    LinearInput product = operators.rounded_input(operators.swiglu(gate, up), s_.shape.intermediate_size);
    operators.enter("the down projection", number);
    branch = operators.linear(product, layer.down, "output of the down projection", kProduct);
  }
  return with_branch(operators, std::move(branch), middle, layer.second_norm, "stream, after the feed-forward layer");
}

// Keeps the input alone and runs the layer again in the backward pass (Chen et al. 2016, arXiv 1604.06174).
Value AccountOfRun::checkpointed(Operators& operators, Layer& layer, const Value& stream) {
  const int64_t number = account_.layer();
  operators.set_gradients(false);
  Value result = run_layer(operators, layer, {stream.data, nullptr});
  operators.set_gradients(true);
  result.slot = operators.new_slot(true);
  operators.enter("a checkpoint", number);
  operators.remember([this, &operators, &layer, number, input = stream.data, below = stream.slot, output = result.slot,
                      positions = operators.positions()] {
    const Tensor gradient = std::move(output->gradient);
    const size_t first = operators.remembered();
    operators.set_pass("repeated forward pass");
    account_.enter_layer(number);
    account_.begin_forward();
    operators.set_positions(positions[0], positions[1]);
    const Value again = run_layer(operators, layer, {input, below});
    operators.set_positions(nullptr, nullptr);
    operators.clear_cache();
    account_.end_forward();
    again.slot->gradient = gradient;
    operators.run_backward(first);
  });
  return result;
}

// A tied head's gradient waits for the embedding's.
void AccountOfRun::give_head_gradient(Operators& operators, Tensor made) {
  if (s_.shape.tie_word_embeddings) {
    waiting_head_ = std::move(made);
  } else {
    operators.give_gradient(head_gradient_, std::move(made));
  }
}

// The rows that count, a copy of their own; where all do, the last norm's output itself.
Value AccountOfRun::counted_rows(Operators& operators, Value x) {
  const int64_t rows = operators.counted_rows();
  if (rows == operators.tokens()) return x;
  const Product product = {{rows, "rows that count"}, {s_.shape.hidden_size, ""}, {s_.compute_bytes, "bytes"}};
  Value result = {operators.take("rows that count", kRows, product), operators.new_slot(x.slot != nullptr)};
  if (!result.slot) return result;
  operators.remember([this, &operators, below = x.slot, output = result.slot] {
    const Tensor gradient = std::move(output->gradient);
    const Product all = operators.wide(s_.shape.hidden_size, s_.compute_bytes);
    operators.accumulate(below, operators.take("gradient of the last norm's output", kBackward, all), all);
  });
  return result;
}

// The head's gradient is of its stored type; sums of several chunks in 16 bits are FP32 until their end.
Tensor AccountOfRun::sum_of_head(Operators& operators, bool in_one) {
  const bool narrow = s_.stored_bytes == 2 && (!in_one || s_.compute_bytes != 2);
  if (narrow) return operators.take("sum for the head's gradient", kLoss, vocabulary(4));
  return account_.take(Component::kGradients, "gradient of the head", kLoss, vocabulary(s_.stored_bytes));
}

// By a kernel the logits become their own gradient; by LibTorch's operators 16-bit ones go through FP32 scores.
void AccountOfRun::play_chunk(Operators& operators, int64_t rows, bool gradients, bool widens) {
  const Tensor logits = operators.take("logits", kHead, scores(rows, s_.compute_bytes));
  if (s_.own_kernels) {
    const Tensor losses = operators.take("losses of the rows", kLoss, {{rows, "rows"}, {4, "bytes"}});
    operators.take("loss of a chunk", kLoss, {{4, "bytes"}});
  } else if (s_.cuda) {
    const Tensor wide = s_.compute_bytes == 2 ? operators.take("scores in FP32", kLoss, scores(rows, 4)) : nullptr;
    operators.take("loss of a chunk, and its weight", kLoss, {{2, "of"}, {4, "bytes"}});
    if (gradients) {
      const auto each_row = [&](const char* what, int64_t bytes) {
        return operators.take(what, kLoss, {{rows, "rows"}, {bytes, "bytes"}});
      };
      const Tensor targets = each_row("targets, clamped", 8);
      Tensor counted = each_row("which targets count", 1);
      const Tensor scales = each_row("scales of the gradient", 4);
      counted.reset();
      each_row("the targets' part of the gradient", 4);
    }
  } else if (widens) {
    const int64_t columns = std::min(kPartColumns, s_.shape.hidden_size);
    const Tensor part_of_x = columns == s_.shape.hidden_size
                                 ? nullptr
                                 : operators.take("columns of the head's input", kLoss,
                                                  {{rows, "rows"}, {columns, "columns"}, {s_.compute_bytes, "bytes"}});
    operators.take("columns of the head's gradient", kLoss,
                   {{s_.shape.vocab_size, "tokens of the vocabulary"}, {columns, ""}, {s_.compute_bytes, "bytes"}});
  }
}

// All chunks take what the first does: the largest.
Tensor AccountOfRun::loss(Operators& operators, Value x) {
  operators.enter("the loss", 0);
  const bool trains_head = s_.trains_head() && operators.gradients();
  const Tensor copy = s_.casts_base
                          ? operators.cast_weight(head_copy_, s_.trains_head(), kHeadCopy, vocabulary(s_.compute_bytes))
                          : nullptr;
  x = counted_rows(operators, std::move(x));
  const int64_t rows = operators.counted_rows(), size = s_.run.loss_chunk_size;
  const int64_t chunk = ops::loss_chunk_rows(rows, size, s_.shape.vocab_size, s_.compute_bytes, !trains_head, s_.cuda);
  Tensor result = operators.take("loss", kLoss, {{4, "bytes"}});
  Tensor of_head = trains_head ? sum_of_head(operators, chunk == rows) : nullptr;
  const bool sums_wider = s_.compute_bytes == 2 && (s_.stored_bytes == 4 || chunk < rows);
  if (rows > 0) play_chunk(operators, chunk, trains_head || x.slot, trains_head && sums_wider);
  if (trains_head && s_.stored_bytes == 2 && chunk < rows) {
    of_head = account_.take(Component::kGradients, "gradient of the head", kLoss, vocabulary(s_.stored_bytes));
  }
  if (!trains_head && !x.slot) return result;
  operators.remember([this, &operators, of_head, of_x = x.data, below = x.slot]() mutable {
    if (below) below->gradient = std::move(of_x);
    if (of_head) give_head_gradient(operators, std::move(of_head));
  });
  return result;
}

// Documents begin at position 0: a packed batch has tables of its own.
void AccountOfRun::gather_positions(Operators& operators) {
  if (operators.batch().document_lengths.empty()) return;
  const Product rows = operators.wide(s_.shape.head_dim / 2, 4);
  Tensor cosines = operators.take("rotary tables of the batch's positions", kRotaryTables, rows);
  operators.set_positions(std::move(cosines),
                          operators.take("rotary tables of the batch's positions", kRotaryTables, rows));
  if (s_.checkpointing && operators.gradients()) recipe_positions_ = operators.positions();
}

Tensor AccountOfRun::forward(Operators& operators) {
  gather_positions(operators);
  Value x;
  {
    Value stream = embed(operators);
    int64_t number = 0;
    for (Layer& layer : layers_) {
      account_.enter_layer(++number);
      const bool repeats = s_.checkpointing && operators.gradients() && (stream.slot || layer.trains());
      stream = repeats ? checkpointed(operators, layer, stream) : run_layer(operators, layer, stream);
    }
    x = operators.norm(stream, "last norm's output", last_norm_);
    operators.set_positions(nullptr, nullptr);
  }
  Tensor result = loss(operators, std::move(x));
  operators.clear_cache();
  return result;
}

void AccountOfRun::step(const train::StepShape& step) {
  Tensor sum;
  for (const train::BatchShape& batch : step) {
    Operators operators(s_, account_, batch);
    account_.begin_forward();
    Tensor loss = forward(operators);
    account_.end_forward();
    const Tensor upstream = operators.take("gradient of the loss", kBackward, {{4, "bytes"}});
    operators.run_backward(0);
    recipe_positions_ = {};
    if (!sum) sum = std::move(loss);
  }
  sum.reset();
  update();
}

void AccountOfRun::evaluation(const train::BatchShape& batch) {
  Operators operators(s_, account_, batch);
  operators.set_pass("evaluation");
  operators.set_gradients(false);
  operators.set_training(false);
  forward(operators);
}

void AccountOfRun::update() {
  account_.enter_layer(0);
  account_.enter("optimizer step", "", 0);
  account_for_update(s_, account_);
  embedding_gradient_.reset();
  head_gradient_.reset();
  last_norm_.gradient.reset();
  for (Layer& layer : layers_) {
    for (NormWeight* norm : {&layer.first_norm, &layer.second_norm, &layer.query_norm, &layer.key_norm}) {
      norm->gradient.reset();
    }
    for (Weight* weight : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      weight->gradient.reset();
      weight->gradient_bias.reset();
      weight->gradient_a.reset();
      weight->gradient_b.reset();
      weight->gradient_steps.reset();
    }
  }
}

}  // namespace fathom::plan
