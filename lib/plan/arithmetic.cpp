// Walks through the model as autograd does: what needs a gradient, and what that costs.
#include "plan/arithmetic.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "arch/parameter_table.h"
#include "arch/precision.h"
#include "arch/storage_schemes.h"
#include "base/bytes.h"
#include "base/rounding.h"
#include "config/precision.h"
#include "ops/attention_segments.h"
#include "ops/tied_embedding_part.h"
#include "optim/moment_storage.h"
#include "plan/analytic.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

constexpr const char* kWhat =
    "the arithmetic of a step (per_device_train_batch_size × gradient_accumulation_steps × max_length)";

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) result = checked_multiply(result, factor, kWhat);
  return result;
}

void add(int64_t& sum, std::initializer_list<int64_t> factors) { sum = checked_add(sum, product(factors), kWhat); }

// One micro-batch, then the update.
class Walk {
 public:
  Walk(const arch::ModelShape& shape, const config::RunConfig& run)
      : shape_(shape),
        run_(run),
        stored_(size_of(arch::precision_of(shape, run).stored)),
        computed_(size_of(arch::precision_of(shape, run).computed)),
        scheme_(arch::base_scheme(shape, run)),
        parameters_(arch::parameter_table(shape, run)),
        trained_base_count_(parameters_.trained_base_count()) {
    for (const arch::ParameterRow& row : parameters_.rows) {
      if (row.trained && row.of_base()) trained_.insert(row.spec.name);
      if (row.adapted) adapted_.insert(row.spec.module());
    }
  }

  // So many micro-batches of one shape; only a step's first is `first`, alone.
  void micro_batches(const train::BatchShape& batch, bool first, int64_t count) {
    const Arithmetic before = sum_;
    micro_batch(batch, first);
    const auto repeat = [&](int64_t Arithmetic::*member) {
      add(sum_.*member, {count - 1, sum_.*member - before.*member});
    };
    repeat(&Arithmetic::matrix_flops);
    repeat(&Arithmetic::attention_flops);
    repeat(&Arithmetic::bytes_moved);
  }

  void micro_batch(const train::BatchShape& batch, bool first) {
    batch_ = batch;
    tokens_ = product({batch.rows, batch.length});
    move(tokens_, {2, shape_.hidden_size, stored_});  // the embedding's rows
    const bool trains_embedding = parameters_.rows.front().trained;
    bool needs_gradient = trains_embedding;
    for (int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer)
      needs_gradient = run_layer(layer, needs_gradient);
    head(norm("model.norm", needs_gradient, 1));
    // The gradient of the embedding: zeros, then a row for each token, all of which are handed to LibTorch's operator
    // for each part that is added to a tied head's.
    if (trains_embedding) {
      const bool tied = shape_.tie_word_embeddings;
      const int64_t part = ops::tied_part_rows(shape_.vocab_size, shape_.hidden_size * stored_);
      const int64_t parts = tied ? divide_up(shape_.vocab_size, part) : 1;
      move(shape_.vocab_size, {tied ? 4 : 1, shape_.hidden_size, stored_});
      move(tokens_, {2 + parts, shape_.hidden_size, stored_});
    }
    if (!first) move(trained_base_count_, {3, stored_});  // added to the gradients that are there
  }

  void update() {
    for (const arch::ParameterRow& row : parameters_.rows) {
      if (row.trained) update(row.spec.elements(), size_of(row.dtype), row.spec.is_matrix());
    }
  }

  const Arithmetic& sum() const { return sum_; }

 private:
  // The norm reads the gradient. Then a kernel (lib/optim) goes over the parameter once: it reads the gradient, reads
  // and writes the parameter and what the optimizer keeps of each number. Adafactor reads a matrix's gradient four
  // times.
  void update(int64_t elements, int64_t bytes, bool is_matrix) {
    constexpr int64_t kWide = 4;
    move(elements, {1 + 1 + 2, bytes});
    switch (run_.optim) {
      case config::Optimizer::kAdamW:
      case config::Optimizer::kAdamW8bit:
      case config::Optimizer::kAdamWBf16:
        return update_moments(elements, bytes);
      case config::Optimizer::kLion:
        return move(elements, {2, kWide});
      case config::Optimizer::kAdafactor:
        return is_matrix ? move(elements, {3, bytes}) : move(elements, {bytes + kWide});
      case config::Optimizer::kSgd:
        return;
    }
  }

  // Masters are read and written in the place of the weights, which are written alone.
  void update_moments(int64_t elements, int64_t bytes) {
    const optim::MomentStorage storage = optim::moment_storage(run_.optim, run_.master_weights);
    move(elements, {4, optim::bytes_of_moment(storage, elements, bytes)});
    move(optim::scales_of_moment(storage, elements), {4, 4});
    if (bytes == 2 && run_.master_weights == config::MasterWeights::kFp32) move(elements, {2 * 4 - 2});
  }

  void move(int64_t count, std::initializer_list<int64_t> factors) {
    sum_.bytes_moved = checked_add(sum_.bytes_moved, checked_multiply(count, product(factors), kWhat), kWhat);
  }

  bool trains(const std::string& module) const { return trained_.contains(module + ".weight"); }

  // forwards: how often the forward pass runs, 2 where it is recomputed. Returns whether the output needs a gradient.
  bool linear(const std::string& module, int64_t in, int64_t out, bool input_needs, int64_t forwards,
              bool bias = false) {
    const bool adapted = adapted_.contains(module), trained = trains(module);
    if (run_.qat != config::Qat::kNone) return rounded(in, out, input_needs, forwards, adapted, bias && trained);
    const int64_t gradients = (trained ? 1 : 0) + (input_needs ? 1 : 0);
    add(sum_.matrix_flops, {forwards + gradients, 2, tokens_, in, out});
    const int64_t casts = trained ? 1 : forwards + (input_needs ? 1 : 0);  // of a frozen weight, for every product
    const bool quantized = scheme_ && !trained;
    if (quantized) {
      move(casts, {quant::layout_of(*scheme_, out, in).bytes()});
      move(product({in, out}), {casts, computed_});
    }
    if (computed_ != stored_ && !quantized) move(product({in, out}), {casts, stored_ + computed_});
    if (computed_ != stored_ && trained) move(product({in, out}), {stored_ + computed_});  // the gradient, widened
    if (bias && trained) move(tokens_, {out, computed_});  // its gradient is a sum over all tokens
    if (adapted) adapter(in, out, input_needs, forwards);
    return input_needs || trained || adapted;
  }

  // The same of a weight that is rounded for each product, with its adapter merged into it in FP32; its gradient is
  // made for the steps' sake, whatever is trained.
  bool rounded(int64_t in, int64_t out, bool input_needs, int64_t forwards, bool merged, bool biased) {
    constexpr int64_t kWide = 4;
    const int64_t products = forwards + (input_needs ? 1 : 0), read = merged ? kWide : stored_;
    add(sum_.matrix_flops, {products + 1, 2, tokens_, in, out});
    if (merged) {
      add(sum_.matrix_flops, {forwards + 1 + 2, 2, in, out, run_.lora_r});
      move(product({in, out}), {forwards + 1, stored_ + kWide});
    }
    move(product({in, out}), {products, read + computed_});
    move(product({in, out}), {3, read});
    if (computed_ != read) move(product({in, out}), {computed_ + read});  // the gradient, widened
    if (biased) move(tokens_, {out, computed_});
    return true;
  }

  // The head and the loss of the rows that count, whose gradient takes the place of the logits.
  void head(bool input_needs) {
    const int64_t width = shape_.hidden_size, vocabulary = shape_.vocab_size;
    const bool trained = parameters_.trains_head();
    const bool picks = run_.loss_chunk_size > 0 && batch_.targets < tokens_;
    const int64_t rows = picks ? batch_.targets : tokens_;
    const int64_t chunk = run_.loss_chunk_size == 0 ? rows : std::min(rows, run_.loss_chunk_size);
    const int64_t gradients = (trained ? 1 : 0) + (input_needs ? 1 : 0);
    add(sum_.matrix_flops, {1 + gradients, 2, rows, width, vocabulary});
    move(rows, {gradients > 0 ? 2 : 1, vocabulary, computed_});
    if (picks) move(rows, {2 + (input_needs ? 2 : 0), width, computed_});
    if (picks && input_needs) move(tokens_, {width, computed_});
    if (computed_ != stored_) move(product({width, vocabulary}), {stored_ + computed_});
    if (!trained || computed_ != 2) return;
    const int64_t chunks = chunk == 0 ? 0 : divide_up(rows, chunk), wide = 4;
    if (stored_ == wide || chunks > 1) move(product({width, vocabulary}), {chunks, 2 * computed_ + 2 * wide});
    if (stored_ != wide && chunks > 1) move(product({width, vocabulary}), {stored_ + wide});
  }

  // Two products with a width of r. Both matrices are trained, and the inner product needs a gradient for the first.
  void adapter(int64_t in, int64_t out, bool input_needs, int64_t forwards) {
    add(sum_.matrix_flops, {forwards + 1 + (input_needs ? 1 : 0), 2, tokens_, in, run_.lora_r});
    add(sum_.matrix_flops, {forwards + 2, 2, tokens_, run_.lora_r, out});
    const int64_t width = config::autocast_dtype(run_) ? 2 : 4;
    if (width != computed_) {
      move(tokens_, {forwards, in + 2 * out, width + computed_});
      move(tokens_, {in + out + (input_needs ? in : 0), width + computed_});
    }
    // Added to the gradient of the input, which a product of its type does by itself.
    if (input_needs && (width != computed_ || run_.lora_dropout > 0)) move(tokens_, {3, in, computed_});
  }

  // Whether the backward pass of one of these linear layers asks for its input.
  bool any_keeps_input(const std::string& prefix, std::initializer_list<const char*> modules) const {
    return run_.qat != config::Qat::kNone || std::any_of(modules.begin(), modules.end(), [&](const char* module) {
             return adapted_.contains(prefix + module) || trains(prefix + module);
           });
  }

  // These too return whether the output needs a gradient.
  bool norm(const std::string& module, bool input_needs, int64_t forwards) {
    const bool needs = input_needs || trains(module);
    move(tokens_, {forwards, shape_.hidden_size, stored_ + computed_});
    if (needs) move(tokens_, {shape_.hidden_size, computed_ + 2 * stored_});
    return needs;
  }

  // The same of so many numbers a token, read and written in one type.
  bool row_norm(const std::string& module, int64_t width, bool input_needs, int64_t forwards) {
    const bool needs = input_needs || trains(module);
    move(tokens_, {2 * forwards + (needs ? 3 : 0), width, computed_});
    return needs;
  }

  // Of `width` numbers a token: another branch's gradient is added, a sum written.
  void residual(bool needs, int64_t forwards) {
    const int64_t cast = computed_ == stored_ ? 0 : computed_ + stored_;
    move(tokens_, {forwards, shape_.hidden_size, 3 * stored_ + cast});
    if (needs) move(tokens_, {shape_.hidden_size, 3 * stored_ + cast});
  }

  bool run_layer(int64_t layer, bool stream_needs) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const int64_t width = shape_.hidden_size, inner = shape_.intermediate_size;
    const int64_t queries = shape_.num_attention_heads * shape_.head_dim;
    const int64_t keys = shape_.num_key_value_heads * shape_.head_dim;
    const int64_t forwards = run_.gradient_checkpointing ? 2 : 1;
    const arch::LayerNorms norms = arch::layer_norms(shape_);
    const bool before = shape_.norms == arch::NormPlacement::kBefore;
    const auto read = [&](const char* module, bool needs) {
      if (before) return norm(name + module, needs, forwards);
      const int64_t cast = computed_ == stored_ ? 0 : computed_ + stored_;
      move(tokens_, {forwards + (needs ? 1 : 0), width, cast});
      return needs;
    };
    const auto added = [&](const char* module, bool needs) {
      return before ? needs : row_norm(name + module, width, needs, forwards);
    };
    const bool x_needs = read(norms.attention, stream_needs);
    const bool biased = shape_.query_key_value_bias, gated = shape_.feed_forward_bias;
    bool q = linear(name + "self_attn.q_proj", width, queries, x_needs, forwards, biased);
    bool k = linear(name + "self_attn.k_proj", width, keys, x_needs, forwards, biased);
    const bool v = linear(name + "self_attn.v_proj", width, keys, x_needs, forwards, biased);
    if (shape_.query_key_norm != arch::QueryKeyNorm::kNone) {
      q = row_norm(name + "self_attn.q_norm", queries, q, forwards);
      k = row_norm(name + "self_attn.k_norm", keys, k, forwards);
    }
    if (x_needs) move(tokens_, {2, 3, width, computed_});  // three gradients become one
    if (before && x_needs && any_keeps_input(name + "self_attn.", {"q_proj", "k_proj", "v_proj"})) {
      move(tokens_, {width, stored_ + computed_});  // made again
    }
    rotate(queries, q, forwards);
    rotate(keys, k, forwards);
    attention(q || k || v, forwards, shape_.window_of(layer));
    const bool attended = added(
        norms.attention, linear(name + "self_attn.o_proj", queries, width, q || k || v, forwards, shape_.output_bias));
    residual(stream_needs && attended, forwards);
    const bool middle = stream_needs || attended;
    const bool inner_needs = read(norms.feed_forward, middle);
    const bool gate = linear(name + "mlp.gate_proj", width, inner, inner_needs, forwards, gated);
    const bool up = linear(name + "mlp.up_proj", width, inner, inner_needs, forwards, gated);
    if (inner_needs) move(tokens_, {3, width, computed_});
    if (before && inner_needs && any_keeps_input(name + "mlp.", {"gate_proj", "up_proj"})) {
      move(tokens_, {width, stored_ + computed_});
    }
    const int64_t again = (gate || up) && any_keeps_input(name + "mlp.", {"down_proj"}) ? 3 : 0;
    move(tokens_, {3 * forwards + (gate || up ? 5 : 0) + again, inner, computed_});
    const bool down =
        added(norms.feed_forward, linear(name + "mlp.down_proj", inner, width, gate || up, forwards, gated));
    residual(middle && down, forwards);
    return middle || down;
  }

  void rotate(int64_t width, bool needs, int64_t forwards) {
    move(tokens_, {forwards + (needs ? 1 : 0), 2, width, computed_});
  }

  // Rows of a batch are sequences of one length, packed ones documents of several.
  void attention(bool needs, int64_t forwards, int64_t window) {
    const std::vector<int64_t> lengths =
        batch_.document_lengths.empty() ? std::vector<int64_t>{batch_.length} : batch_.document_lengths;
    const int64_t heads = product({batch_.rows, shape_.num_attention_heads});
    if (run_.attn_implementation == config::Attention::kMath) {
      int64_t scores = 0;
      for (const int64_t length : lengths) add(scores, {heads, length, length});
      // Backward: the product for v alone, that for the scores where q or k needs one, then theirs. The function's
      // backward pass makes all of them where it runs at all.
      const int64_t backward = needs ? 4 : 0;
      add(sum_.attention_flops, {2 * forwards + backward, 2, scores, shape_.head_dim});
      move(scores, {(2 + 2 + 2) * forwards + (backward > 0 ? 3 : 0), computed_});
      return;
    }
    const int64_t pairs = ops::visible_pairs(lengths, window);
    add(sum_.attention_flops, {2 * forwards + (needs ? 5 : 0), 2, heads, pairs, shape_.head_dim});
  }

  const arch::ModelShape& shape_;
  const config::RunConfig& run_;
  int64_t stored_, computed_;
  std::optional<quant::Scheme> scheme_;
  arch::ParameterTable parameters_;
  int64_t trained_base_count_;
  std::set<std::string> trained_, adapted_;  // parameters, modules
  train::BatchShape batch_;
  int64_t tokens_ = 0;
  Arithmetic sum_;
};

}  // namespace

Arithmetic estimate_arithmetic(const arch::ModelShape& shape, const config::RunConfig& run,
                               const train::StepShape& step) {
  Walk walk(shape, run);
  for (size_t i = 0, end = 1; i < step.size(); i = end++) {
    while (i > 0 && end < step.size() && step[end] == step[i]) ++end;
    walk.micro_batches(step[i], i == 0, static_cast<int64_t>(end - i));
  }
  walk.update();
  return walk.sum();
}

train::StepShape longest_step(const arch::ModelShape& shape, const config::RunConfig& run,
                              const std::vector<train::StepShape>& steps) {
  train::StepShape longest;
  int64_t most = -1;
  for (train::StepShape step : steps) {
    // A step of one micro-batch is all that there is: a workload with larger steps gives two.
    while (step.size() > 1 && static_cast<int64_t>(step.size()) < run.gradient_accumulation_steps) {
      step.push_back(step.back());
    }
    const Arithmetic arithmetic = estimate_arithmetic(shape, run, step);
    const int64_t flops = checked_add(arithmetic.matrix_flops, arithmetic.attention_flops, kWhat);
    if (flops <= most) continue;
    most = flops;
    longest = std::move(step);
  }
  return longest;
}

}  // namespace fathom::plan
