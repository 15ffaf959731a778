// Norms, linear layers, rotary positions, the gate and the sums of the stream.
#include "plan/analytic_operators.h"

#include <utility>

#include "arch/parameter_table.h"
#include "arch/precision.h"
#include "arch/storage_schemes.h"
#include "config/precision.h"
#include "plan/analytic_sources.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr const char* kNorm =
    "RMSNorm keeps its input and 1/rms (Zhang and Sennrich 2019, arXiv 1910.07467); products have its output made "
    "again";
constexpr const char* kCast = "autocast computes in 16 bits and keeps copies of FP32 weights (torch.amp)";
constexpr const char* kSwiGlu = "SwiGLU keeps gate and up, and makes silu again (Shazeer 2020, arXiv 2002.05202)";
constexpr const char* kRotary =
    "attention keeps queries and keys, turned by their positions (Su et al. 2021, arXiv 2104.09864)";
constexpr const char* kStream = "the sum that runs through the layers; lib/model/decoder_layer.cpp";

}  // namespace

StepSettings::StepSettings(const arch::ModelShape& shape_in, const config::RunConfig& run_in, const Target& target)
    : shape(shape_in),
      run(run_in),
      cuda(target.device == config::Device::kCuda),
      math(target.attention_kernel.starts_with("math")),
      flash(target.attention_kernel.starts_with("flash")),
      amx(target.amx && flash && !cuda && arch::precision_of(shape_in, run_in).computed == DType::kBF16),
      threads(target.threads),
      wide_tiles(target.compute_capability == "8.0" || target.compute_capability == "9.0" ||
                 target.compute_capability.starts_with("10.")),
      lora(run_in.method == config::Method::kLora),
      scheme(arch::base_scheme(shape_in, run_in)),
      fake_scheme(arch::fake_scheme(shape_in, run_in)),
      parameters(arch::parameter_table(shape_in, run_in)),
      checkpointing(run_in.gradient_checkpointing),
      stored_bytes(size_of(arch::precision_of(shape_in, run_in).stored)),
      compute_bytes(size_of(arch::precision_of(shape_in, run_in).computed)),
      adapter_bytes(config::autocast_dtype(run_in) ? 2 : kStoredAdapterBytes),
      casts_base(compute_bytes != stored_bytes),
      scales_loss(arch::precision_of(shape_in, run_in).computed == DType::kF16),
      own_kernels(cuda && run_in.cuda_kernels && !scales_loss) {
  for (const arch::ParameterRow& row : parameters.rows) {
    if (row.trained) trained.insert(row.spec.name);
  }
}

Weight::Weight(std::string name_in, int64_t rows_in, int64_t columns_in, bool bias_in, bool adapted_in, bool trained_in)
    : name(std::move(name_in)),
      copy_name("autocast's copy of " + name),
      gradient_name("gradient of " + name),
      adapter_name("adapter of " + name),
      adapter_copy_name("autocast's copy of the adapter of " + name),
      adapter_gradient_name("gradient of the adapter of " + name),
      rows(rows_in),
      columns(columns_in),
      bias(bias_in),
      adapted(adapted_in),
      trained(trained_in) {}

Operators::Operators(const StepSettings& settings, Account& account, const train::BatchShape& batch)
    : s_(settings), account_(account), batch_(batch), tokens_(batch.rows * batch.length) {}

Product Operators::each_query(int64_t width, int64_t bytes) const {
  Product product = {{batch_.rows, "rows"}, {s_.shape.num_attention_heads, "heads"}, {batch_.length, "queries"}};
  if (width != 1) product.push_back({width, ""});
  product.push_back({bytes, "bytes"});
  return product;
}

std::shared_ptr<Slot> Operators::new_slot(bool needed) const {
  return needed && gradients_ ? std::make_shared<Slot>() : nullptr;
}

void Operators::announce(const char* pass, const char* part, int64_t layer) {
  account_.enter_layer(layer);
  account_.enter(pass, part, layer);
}

void Operators::enter(const char* part, int64_t layer) {
  part_ = part;
  announce(pass_, part, layer);
}

void Operators::run_backward(size_t first) {
  while (graph_.size() > first) {
    Node node = std::move(graph_.back());
    graph_.pop_back();
    announce("backward pass", node.part, node.layer);
    node.backward();
  }
}

// Autograd adds in place into whichever of the two nobody else holds.
void Operators::accumulate(const std::shared_ptr<Slot>& slot, Tensor gradient, const Product& product) {
  if (!slot) return;
  if (!slot->gradient || (slot->gradient.use_count() > 1 && gradient.use_count() == 1)) {
    slot->gradient = std::move(gradient);
  } else if (slot->gradient.use_count() > 1) {
    slot->gradient = take("sum of gradients", kBackward, product);
  }
}

void Operators::give_gradient(Tensor& gradient, Tensor made) {
  if (gradient) return;  // added to what is there
  account_.claim(made, Component::kGradients);
  gradient = std::move(made);
}

void Operators::clear_cache() {
  for (Tensor* copy : cache_) copy->reset();
  cache_.clear();
}

// Autocast remembers the copies of weights that are trained until its scope ends.
Tensor Operators::cast_weight(Tensor& cached, bool trained, const std::string& name, const Product& product) {
  if (cached) return cached;
  Tensor copy = account_.take(Component::kFunctionality, name.c_str(), kCast, product);
  if (trained) {
    cached = copy;
    cache_.push_back(&cached);
  }
  return copy;
}

// The output and 1/rms.
std::array<Tensor, 2> Operators::norm_output(const char* name) {
  const int64_t width = s_.shape.hidden_size;
  const bool casts = s_.cuda && s_.compute_bytes != s_.stored_bytes;  // CUDA's norm answers in the stream's type
  Tensor output = casts ? take("output of a norm, before its cast", kNorm, wide(width, s_.stored_bytes))
                        : take(name, kNorm, wide(width, s_.compute_bytes));
  Tensor rms = take("1/rms of norms", kNorm, {{tokens_, "tokens"}, {4, "bytes"}});
  if (casts) output = take(name, kNorm, wide(width, s_.compute_bytes));
  return {std::move(output), std::move(rms)};
}

LinearInput Operators::normed_input(const Value& stream, const char* name, NormWeight& weight) {
  return LinearInput(norm(stream, name, weight), [this, name] { return norm_output(name)[0]; });
}

Value Operators::norm(const Value& stream, const char* name, NormWeight& weight) {
  const int64_t width = s_.shape.hidden_size;
  const bool casts = s_.cuda && s_.compute_bytes != s_.stored_bytes;
  auto [output, rms] = norm_output(name);
  Value result = {std::move(output), nullptr};
  result.slot = new_slot(stream.slot || weight.trained);
  if (!result.slot) return result;
  remember([this, casts, width, x = stream.data, rms = std::move(rms), input = stream.slot, output = result.slot,
            &weight]() mutable {
    Tensor gradient = std::move(output->gradient), made;
    if (casts) gradient = take("gradient of a norm's output, cast", kBackward, wide(width, s_.stored_bytes));
    if (input || !s_.cuda) made = take("gradient of a norm's input", kBackward, wide(width, s_.stored_bytes));
    if (weight.trained) {
      give_gradient(weight.gradient, take("gradients of norms", kGradient, {{width, ""}, {s_.stored_bytes, "bytes"}}));
    }
    gradient.reset();
    x.reset();
    rms.reset();
    accumulate(input, std::move(made), wide(width, s_.stored_bytes));
  });
  return result;
}

Value Operators::narrowed(const Value& stream) {
  if (s_.compute_bytes == s_.stored_bytes) return stream;
  const int64_t width = s_.shape.hidden_size;
  Value result = {take("stream, cast", kCast, wide(width, s_.compute_bytes)), new_slot(stream.slot != nullptr)};
  if (!result.slot) return result;
  remember([this, width, below = stream.slot, output = result.slot] {
    const Product product = wide(width, s_.stored_bytes);
    Tensor made = take("gradient of the stream's cast", kBackward, product);
    output->gradient.reset();
    accumulate(below, std::move(made), product);
  });
  return result;
}

// Input, output and weight are of the compute type, but trained weights are FP32 under autocast: CUDA's norm wants a
// copy.
Value Operators::row_norm(const Value& x, int64_t groups, int64_t all, const char* name, NormWeight& weight) {
  const int64_t width = all / groups;
  const Product product = wide(all, s_.compute_bytes);
  const bool casts = s_.cuda && s_.compute_bytes != s_.stored_bytes;
  const Product copied = {{width, ""}, {s_.compute_bytes, "bytes"}};
  Tensor copy = casts ? take("norm's weight, cast", kNorm, copied) : nullptr;
  Value result = {take(name, kNorm, product), new_slot(x.slot || weight.trained)};
  Tensor rms = take("1/rms of rows", kNorm, {{tokens_, "tokens"}, {groups, "rows of each"}, {4, "bytes"}});
  if (!result.slot) return result;
  remember([this, product, copied, casts, width, kept = x.data, copy, rms, input = x.slot, output = result.slot,
            &weight]() mutable {
    Tensor gradient = std::move(output->gradient), made, of_weight;
    if (input || !s_.cuda) made = take("gradient of a norm's input", kBackward, product);
    if (weight.trained && casts) of_weight = take("gradient of a norm's weight, cast", kBackward, copied);
    if (weight.trained && !casts) {
      of_weight = take("gradients of norms", kGradient, {{width, ""}, {s_.stored_bytes, "bytes"}});
      give_gradient(weight.gradient, std::move(of_weight));
    }
    gradient.reset();
    kept.reset();
    copy.reset();
    rms.reset();
    accumulate(input, std::move(made), product);
    if (of_weight) {
      give_gradient(weight.gradient, take("gradients of norms", kGradient, {{width, ""}, {s_.stored_bytes, "bytes"}}));
    }
  });
  return result;
}

Value Operators::rotate(const Value& x, int64_t width, const char* name) {
  Value result = {take(name, kRotary, wide(width, s_.compute_bytes)), new_slot(x.slot != nullptr)};
  if (!result.slot) return result;
  remember([this, width, input = x.slot, output = result.slot, kept = positions_] {
    const Product product = wide(width, s_.compute_bytes);
    Tensor gradient = std::move(output->gradient);
    if (output->strided) gradient = take("gradient of rotated heads, joined", kBackward, product);
    Tensor made = take("gradient of heads, turned back", kBackward, product);
    gradient.reset();
    accumulate(input, std::move(made), product);
  });
  return result;
}

LinearInput Operators::swiglu(const Value& gate, const Value& up) {
  const Product product = wide(s_.shape.intermediate_size, s_.compute_bytes);
  const auto multiply = [this, product] { return take("gated product", kSwiGlu, product); };
  Value result = {multiply(), new_slot(gate.slot || up.slot)};
  LinearInput input(result, multiply);
  if (!result.slot) return input;
  remember([this, product, kept_gate = gate.data, kept_up = up.data, gate = gate.slot, up = up.slot,
            output = result.slot]() mutable {
    Tensor gradient = std::move(output->gradient);
    Tensor of_gate, of_up = take("gradients of gate and up", kBackward, product);
    if (s_.cuda && !s_.own_kernels) {
      Tensor of_silu = take("gradient of silu", kBackward, product);
      of_gate = take("gradients of gate and up", kBackward, product);
    } else {
      of_gate = take("gradients of gate and up", kBackward, product);
    }
    gradient.reset();
    kept_gate.reset();
    kept_up.reset();
    accumulate(gate, std::move(of_gate), product);
    accumulate(up, std::move(of_up), product);
  });
  return input;
}

// The branch is given up here, as its caller does. NOLINTNEXTLINE(performance-unnecessary-value-param)
Value Operators::add(Value branch, const Value& stream, const char* name) {
  const Product product = wide(s_.shape.hidden_size, s_.stored_bytes);
  const bool casts = s_.compute_bytes != s_.stored_bytes;
  Value result = {branch.data, new_slot(branch.slot || stream.slot)};
  if (casts) result.data = take(name, kStream, product);
  if (!result.slot) return result;
  remember([this, product, casts, branch = branch.slot, stream = stream.slot, output = result.slot] {
    Tensor gradient = std::move(output->gradient);
    if (branch && casts) {
      branch->gradient = take("gradient of a branch, cast", kBackward, wide(s_.shape.hidden_size, s_.compute_bytes));
    } else if (branch) {
      branch->gradient = gradient;
    }
    accumulate(stream, std::move(gradient), product);
  });
  return result;
}

}  // namespace fathom::plan
