// As lib/model puts the operators together.
#include "plan/step_operators.h"

#include <algorithm>
#include <string_view>

#include "arch/precision.h"
#include "arch/storage_schemes.h"
#include "config/precision.h"
#include "footprint/attention.h"
#include "footprint/elementwise.h"
#include "footprint/embedding.h"
#include "footprint/head_loss.h"
#include "footprint/linear.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using arch::ParameterRow;
using arch::Role;
using footprint::Bytes;
using footprint::Tensors;

constexpr const char* kStream = "the sum that runs through the layers; lib/model/decoder_layer.cpp";
constexpr const char* kGradient = "one gradient for each trained number, in its type";

bool belongs_to(const ParameterRow& row, std::string_view module) {
  const size_t at = row.spec.name.find(module);
  const size_t end = at + module.size();
  return at != std::string::npos && row.spec.name[at - 1] == '.' && row.spec.name[end] == '.';
}

const char* name_of_gradient(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "gradient of the embedding";
    case Role::kHead:
      return "gradient of the head";
    case Role::kNorm:
      return "gradients of norms";
    case Role::kProjection:
      return "gradients of projections";
    case Role::kBias:
      return "gradients of biases";
    case Role::kStepSizes:
      return "gradients of step sizes";
    case Role::kAdapterA:
    case Role::kAdapterB:
      return "gradients of adapters";
  }
  return "";
}

Bytes gradient_of(const ParameterRow& row) {
  Product product;
  for (const int64_t size : row.spec.shape) product.push_back({size, ""});
  product.push_back({size_of(row.dtype), "bytes"});
  return {name_of_gradient(row.spec.role), kGradient, std::move(product), memory::Component::kGradients};
}

Tensors gradients_of(const std::vector<const ParameterRow*>& rows, std::string_view module) {
  Tensors gradients;
  for (const ParameterRow* row : rows) {
    if (row->trained && belongs_to(*row, module)) gradients.push_back(gradient_of(*row));
  }
  return gradients;
}

footprint::AttentionKernel kernel_of(const Target& target) {
  for (const auto kernel : {footprint::AttentionKernel::kMath, footprint::AttentionKernel::kMemoryEfficient}) {
    if (target.attention_kernel == footprint::kernel_name(kernel)) return kernel;
  }
  return footprint::AttentionKernel::kFlash;
}

}  // namespace

struct StepOperators::Batch {
  const schedule::BatchShape& shape;
  footprint::StepSizes step;
};

StepOperators::StepOperators(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
                             const arch::ParameterTable& parameters)
    : architecture_(architecture), run_(run), target_(target), parameters_(parameters) {
  std::vector<Kind> each(architecture.layers.size());
  for (const ParameterRow& row : parameters.rows) {
    if (row.spec.layer < 0) {
      others_.push_back(&row);
      continue;
    }
    Kind& kind = each[static_cast<size_t>(row.spec.layer)];
    kind.rows.push_back(&row);
    kind.trained = kind.trained || row.trained;
  }
  const auto alike = [](const Kind& a, const Kind& b) {
    return *a.spec == *b.spec && a.input_needs_gradient == b.input_needs_gradient &&
           std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                      [](const ParameterRow* x, const ParameterRow* y) {
                        return x->trained == y->trained && x->codes == y->codes && x->spec.role == y->spec.role &&
                               x->spec.shape == y->spec.shape;
                      });
  };
  bool needs = parameters.rows.front().trained;
  for (size_t layer = 0; layer < each.size(); ++layer) {
    each[layer].input_needs_gradient = needs;
    needs = needs || each[layer].trained;
    each[layer].spec = &architecture.layers[layer];
    const auto known =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return alike(kind, each[layer]); });
    layers_.push_back(static_cast<size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) kinds_.push_back(std::move(each[layer]));
  }
}

Operators StepOperators::layer(const Batch& batch, const Kind& kind) const {
  const footprint::StepSizes& step = batch.step;
  const arch::LayerSpec& spec = *kind.spec;
  const int64_t width = architecture_.hidden_size, inner = spec.feed_forward.width, bytes = step.compute_bytes;
  const int64_t queries = spec.attention.queries(), keys = spec.attention.keys();
  const bool before = spec.norms_before();
  const arch::NormNames norms = spec.norm_names();
  Operators operators;
  const auto waiting = [&](const char* what, int64_t numbers) -> Tensors {
    return {{what, footprint::kGradientSource, step.wide(numbers, bytes)}};
  };
  const auto of_input = [&] { return waiting("gradient of the layers' input", width); };
  // Whether the stream, what linear layers read of it, and what they make of that need gradients.
  bool stream = kind.input_needs_gradient, read = stream, made = false;
  const auto fake_codes = arch::fake_scheme(architecture_, run_);
  const auto sizes_of = [&](std::string_view module) {
    footprint::LinearSizes sizes;
    for (const ParameterRow* row : kind.rows) {
      if (row->spec.role != Role::kProjection || !belongs_to(*row, module)) continue;
      sizes.out = row->spec.shape[0];
      sizes.in = row->spec.shape[1];
      sizes.trained = row->trained;
      sizes.adapted = row->adapted;
      sizes.codes = row->codes;
      sizes.fake_codes = fake_codes;
    }
    return sizes;
  };
  const auto keeps_input = [&](std::string_view module) { return sizes_of(module).keeps_input(); };
  const auto linear = [&](const char* part, const char* module, bool again) -> Operator& {
    footprint::LinearSizes sizes = sizes_of(module);
    sizes.makes_input_again = again;
    sizes.input_needs_gradient = read;
    made = made || read || sizes.keeps_input();
    return operators.emplace_back(
        Operator{part, footprint::linear_footprint(step, sizes), gradients_of(kind.rows, module), {}});
  };
  const auto row_norm = [&](const char* part, const char* module, int64_t numbers, int64_t groups, Tensors wait) {
    operators.push_back(
        {part, footprint::row_norm_footprint(step, numbers, groups), gradients_of(kind.rows, module), std::move(wait)});
  };
  // The stream as linear layers read it: through a norm, or as it is, which a layer that is trained keeps.
  const auto branch = [&](const char* part, const char* norm, std::initializer_list<const char*> readers) {
    made = false;
    read = stream;
    if (before) {
      operators.push_back({part, footprint::rms_norm_footprint(step, width), gradients_of(kind.rows, norm), {}});
      read = read || !operators.back().gradients.empty();
      if (!read) {  // then it keeps nothing, and its readers its output
        const bool kept = std::any_of(readers.begin(), readers.end(), keeps_input);
        operators.back().footprint.kept =
            kept ? Tensors{{"output of a norm", kStream, step.wide(width, bytes)}} : Tensors();
      }
      // The gradients of the readers' inputs add up.
      const auto sums = read ? static_cast<int64_t>(readers.size()) - 1 : 0;
      operators.back().footprint.backward_work.bytes += 3 * sums * value_of(step.wide(width, bytes));
    } else if (std::any_of(readers.begin(), readers.end(), keeps_input)) {
      operators.push_back(
          {part, {{{"residual stream, read by projections", kStream, step.wide(width, bytes)}}, {}, {}}, {}, {}});
    }
  };
  const auto added = [&](const char* part, const char* norm) {
    stream = stream || made;
    operators.back().takes_stream_gradient = before && !step.casts();
    if (!before) row_norm(part, norm, width, 1, {});
    const Product each =
        step.wide(width, 3 * step.stored_bytes + (step.casts() ? step.compute_bytes + step.stored_bytes : 0));
    operators.push_back({part, {{}, {{{"residual stream and what is added", kStream, each}}}, {}}, {}, {}});
    operators.back().footprint.forward_work.bytes = operators.back().footprint.backward_work.bytes = value_of(each);
  };

  // Values of a branch, and the stream beside them, stay until it ends, also where no backward pass wants them.
  const auto alive = [&](std::initializer_list<int64_t> widths, int64_t streams) {
    for (Tensors& moment : operators.back().footprint.forward) {
      for (const int64_t numbers : widths) moment.push_back({"values of a branch", kStream, step.wide(numbers, bytes)});
      if (streams > 0)
        moment.push_back({"residual stream, after attention", kStream, step.wide(width, step.stored_bytes)});
    }
  };

  constexpr const char *kHeads = "queries, keys and values", *kOutput = "attention's output projection";
  branch(kHeads, norms.attention, {"q_proj", "k_proj", "v_proj"});
  const auto heads = [&](const char* module, const char* norm, int64_t numbers, int64_t count, const Tensors& wait) {
    linear(kHeads, module, before).waiting = wait;
    if (spec.attention.query_key_norm != arch::QueryKeyNorm::kNone) {
      row_norm(kHeads, norm, numbers, spec.attention.query_key_norm == arch::QueryKeyNorm::kEachHead ? count : 1, wait);
    }
    operators.push_back({kHeads, footprint::rotary_footprint(step, numbers), {}, wait});
  };
  heads("q_proj", "q_norm", queries, spec.attention.heads, of_input());
  Tensors wait = of_input();
  wait.push_back(waiting("gradient of queries", queries).front());
  heads("k_proj", "k_norm", keys, spec.attention.key_value_heads, wait);
  linear(kHeads, "v_proj", before).waiting = waiting("gradients of queries and keys", queries + keys);

  footprint::AttentionSizes attention = {kernel_of(target_), batch.shape.rows, batch.shape.document_lengths};
  attention.packed = !attention.lengths.empty();
  if (!attention.packed) attention.lengths.assign(static_cast<size_t>(batch.shape.rows), batch.shape.length);
  attention.heads = spec.attention.heads;
  attention.key_heads = spec.attention.key_value_heads;
  attention.head_size = spec.attention.head_dim;
  attention.window = spec.attention.window;
  attention.amx = target_.amx && !step.cuda && attention.kernel == footprint::AttentionKernel::kFlash &&
                  arch::precision_of(architecture_, run_).computed == DType::kBF16;
  attention.threads = target_.threads;
  attention.wide_tiles = target_.compute_capability == "8.0" || target_.compute_capability == "9.0" ||
                         target_.compute_capability.starts_with("10.");
  attention.output_is_kept = keeps_input("o_proj");
  attention.differentiated = made;
  operators.push_back({"attention", footprint::attention_footprint(step, attention), {}, {}});
  operators.back().is_attention = true;
  alive({width}, 0);
  read = std::exchange(made, false);
  linear(kOutput, "o_proj", false);
  alive({width, queries, 2 * keys}, 0);
  added(kOutput, norms.attention);

  constexpr const char *kGate = "gate and up", *kDown = "the down projection";
  branch(kGate, norms.feed_forward, {"gate_proj", "up_proj"});
  linear(kGate, "gate_proj", before).waiting = of_input();
  linear(kGate, "up_proj", before).waiting = waiting("gradient of the gate", inner);
  operators.push_back({"the gate", footprint::swiglu_footprint(step, inner), {}, {}});
  if (!made) {
    operators.back().footprint.kept =
        keeps_input("down_proj") ? Tensors{{"output of the gate", kStream, step.wide(inner, bytes)}} : Tensors();
  }
  alive({width}, 1);
  read = std::exchange(made, false);
  linear(kDown, "down_proj", true);
  alive({width, 2 * inner}, 1);
  added(kDown, norms.feed_forward);
  return operators;
}

BatchOperators StepOperators::of_batch(const schedule::BatchShape& shape, bool gradients) const {
  const arch::Precision precision = arch::precision_of(architecture_, run_);
  Batch batch{shape, {}};
  footprint::StepSizes& step = batch.step;
  step.tokens = shape.rows * shape.length;
  step.stored_bytes = size_of(precision.stored);
  step.compute_bytes = size_of(precision.computed);
  step.adapter_bytes = config::autocast_dtype(run_) ? 2 : 4;
  step.rank = run_.lora_r;
  step.dropout = gradients && run_.lora_dropout > 0;
  step.cuda = target_.device == config::Device::kCuda;
  step.own_kernels = step.cuda && run_.cuda_kernels && precision.computed != DType::kF16;
  const int64_t width = architecture_.hidden_size;

  BatchOperators result;
  result.loss = {
      {"loss", "a number in FP32", {{4, "bytes"}}},
      {"gradient of the loss", footprint::kGradientSource, {{4, "bytes"}}, memory::Component::kTemporaryBuffers}};
  result.stream_gradient = {
      {"gradient of the residual stream", footprint::kGradientSource, step.wide(width, step.stored_bytes)}};
  result.checkpoint = {{"residual stream, kept by checkpoints",
                        "a layer keeps its input and runs again (Chen et al. 2016, arXiv 1604.06174)",
                        step.wide(width, step.stored_bytes)}};
  result.kinds.reserve(kinds_.size());
  for (const Kind& kind : kinds_) result.kinds.push_back(layer(batch, kind));
  result.layers = layers_;
  result.head_waits = architecture_.tie_word_embeddings;
  result.trains_embedding = parameters_.rows.front().trained;
  for (const size_t kind : layers_)
    result.needs_gradients.push_back(kinds_[kind].input_needs_gradient || kinds_[kind].trained);
  footprint::HeadSizes head = {architecture_.vocab_size, width, shape.targets, run_.loss_chunk_size};
  if (run_.loss_chunk_size == 0) head.rows = step.tokens;
  head.trained = gradients && parameters_.trains_head();
  result.last_norm = {"the last norm", footprint::rms_norm_footprint(step, width), gradients_of(others_, "norm"), {}};
  result.last_norm.takes_stream_gradient = true;
  head.input_needs_gradient = gradients && (result.needs_gradients.back() || !result.last_norm.gradients.empty());
  head.gradients = head.input_needs_gradient || head.trained;
  result.head = {"the loss", footprint::head_loss_footprint(step, head), {}, {}};
  result.embedding = {
      "the embedding",
      footprint::embedding_footprint(step, architecture_.vocab_size, width, architecture_.tie_word_embeddings),
      {},
      {}};
  for (const ParameterRow* row : others_) {
    if (!row->trained || !row->spec.has_row_per_token()) continue;
    const bool of_head = row->spec.role == Role::kHead || architecture_.tie_word_embeddings;
    (of_head ? result.head : result.embedding).gradients.push_back(gradient_of(*row));
  }
  return result;
}

}  // namespace fathom::plan
