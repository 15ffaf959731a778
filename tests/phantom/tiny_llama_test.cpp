// The network of tiny_llama.h. It holds no test of its own: equivalence_test.cpp plays it.
#include "tests/phantom/tiny_llama.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <mutex>
#include <sstream>

namespace fathom::phantom {
namespace {

using at::Tensor;
using memory::Component;
using memory::Phase;

class AutocastGuard {
 public:
  AutocastGuard(c10::DeviceType device, bool enabled)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        old_dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastGuard() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, old_dtype_);
  }

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType old_dtype_;
};

// Runs a function without a graph and again in its backward. The anchor lets gradients through a frozen input.
struct Segment : torch::CustomClassHolder {
  std::function<Tensor(const Tensor&)> run;
  ledger::Ledger* ledger = nullptr;
  bool autocast = false, input_needs_gradient = false;
  std::optional<at::Generator> generator;
};

struct Recompute : torch::autograd::Function<Recompute> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& input, const Tensor&,
                        c10::intrusive_ptr<Segment> segment) {
    at::Generator generator = at::globalContext().defaultGenerator(input.device());
    segment->autocast = at::autocast::is_autocast_enabled(input.device().type());
    segment->input_needs_gradient = input.requires_grad();
    {
      std::lock_guard lock(generator.mutex());
      segment->generator = generator.clone();
    }
    context->save_for_backward({input});
    context->saved_data["segment"] = c10::IValue::make_capsule(segment);
    return segment->run(input);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto segment = c10::static_intrusive_pointer_cast<Segment>(context->saved_data["segment"].toCapsule());
    Tensor input = context->get_saved_variables()[0].detach().set_requires_grad(segment->input_needs_gradient), output;
    segment->ledger->begin_recomputation();
    {
      at::AutoGradMode enable(true);
      AutocastGuard autocast(input.device().type(), segment->autocast);
      output = segment->run(input);
    }
    segment->ledger->begin_segment_backward();
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), Tensor(), Tensor()};
  }
};

struct Linear {
  Tensor weight, lora_a, lora_b;
};

struct Layer {
  Tensor norm1, norm2;
  Linear query, key, value, output, gate, up, down;
};

class TinyLlama {
 public:
  TinyLlama(const TinyRun& run, at::Device device, ledger::Ledger& ledger)
      : run_(run), device_(device), ledger_(ledger), options_(at::TensorOptions().device(device)) {
    const TinyShape& s = run.shape;
    head_size_ = s.hidden / s.heads;
    embedding_ = parameter({s.vocabulary, s.hidden}, true);
    for (int64_t i = 0; i < s.layers; i++) {
      layers_.push_back({parameter({s.hidden}, true), parameter({s.hidden}, true), linear(s.hidden, s.hidden),
                         linear(s.kv_heads * head_size_, s.hidden), linear(s.kv_heads * head_size_, s.hidden),
                         linear(s.hidden, s.hidden), linear(s.ffn, s.hidden), linear(s.ffn, s.hidden),
                         linear(s.hidden, s.ffn)});
    }
    norm_ = parameter({s.hidden}, true);
    head_ = s.tied ? embedding_ : parameter({s.vocabulary, s.hidden}, true);
    Tensor angles_SE = at::outer(at::arange(s.sequence, options_.dtype(at::kFloat)), at::ones({head_size_}, options_));
    cos_SE_ = buffer(at::cos(angles_SE));
    sin_SE_ = buffer(at::sin(angles_SE));
    anchor_ = at::empty({0}, options_).set_requires_grad(true);
  }

  Tensor loss(const Tensor& ids_BS, const Tensor& labels_BS) const {
    Tensor x_BSD = at::embedding(embedding_, ids_BS);
    for (const Layer& layer : layers_) {
      auto block = [this, &layer](const Tensor& in_BSD) { return this->block(layer, in_BSD); };
      if (!run_.checkpointing) {
        x_BSD = block(x_BSD);
        continue;
      }
      auto segment = c10::make_intrusive<Segment>();
      segment->run = block;
      segment->ledger = &ledger_;
      x_BSD = Recompute::apply(x_BSD, anchor_, segment);
    }
    Tensor logits_TV = at::linear(rms_norm(x_BSD, norm_), head_).view({-1, run_.shape.vocabulary});
    return at::cross_entropy_loss(logits_TV.to(at::kFloat), labels_BS.view({-1}));
  }

  std::vector<Tensor> trained;

 private:
  Tensor parameter(at::IntArrayRef size, bool base) {
    auto dtype = run_.precision == Precision::kBFloat16 ? at::kBFloat16 : at::kFloat;
    Tensor weight = at::empty(size, options_.dtype(base ? dtype : at::kFloat)).normal_(0, 0.02);
    ledger_.claim(weight, Component::kWeights);
    if (base && run_.lora) return weight;
    trained.push_back(weight.set_requires_grad(true));
    return weight;
  }
  Linear linear(int64_t out, int64_t in) {
    Linear l{parameter({out, in}, true), {}, {}};
    if (run_.lora) {
      l.lora_a = parameter({4, in}, false);
      l.lora_b = parameter({out, 4}, false);
    }
    return l;
  }
  Tensor buffer(Tensor tensor) {
    ledger_.claim(tensor, Component::kWeights);
    return tensor;
  }

  Tensor rms_norm(const Tensor& x, const Tensor& weight) const {
    Tensor f = x.to(at::kFloat);
    Tensor scale = at::rsqrt(at::mean(f.pow(2), at::OptionalIntArrayRef({-1}), true) + 1e-6);
    return (f * scale).to(x.scalar_type()) * weight;
  }
  Tensor apply(const Linear& l, const Tensor& x) const {
    Tensor y = at::linear(x, l.weight);
    if (!run_.lora) return y;
    Tensor h = run_.dropout > 0 ? at::dropout(x, run_.dropout, true) : x;
    return y + at::linear(at::linear(h.to(at::kFloat), l.lora_a), l.lora_b).to(y.scalar_type()) * 2.0;
  }
  Tensor rope(const Tensor& x_BHSE) const {
    auto halves = x_BHSE.chunk(2, -1);
    Tensor cos = cos_SE_.to(x_BHSE.scalar_type()), sin = sin_SE_.to(x_BHSE.scalar_type());
    return x_BHSE * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
  }
  Tensor block(const Layer& layer, const Tensor& x_BSD) const {
    int64_t B = x_BSD.size(0), S = x_BSD.size(1), H = run_.shape.heads, K = run_.shape.kv_heads, E = head_size_;
    Tensor h = rms_norm(x_BSD, layer.norm1);
    auto split = [&](const Tensor& t, int64_t heads) { return t.view({B, S, heads, E}).transpose(1, 2); };
    auto repeat = [&](const Tensor& t) { return t.unsqueeze(2).expand({B, K, H / K, S, E}).reshape({B, H, S, E}); };
    Tensor query = rope(split(apply(layer.query, h), H)), key = rope(split(apply(layer.key, h), K));
    Tensor value = split(apply(layer.value, h), K);
    Tensor mixed =
        run_.flash
            ? at::scaled_dot_product_attention(query, repeat(key), repeat(value), {}, 0.0, true)
            : std::get<0>(at::_scaled_dot_product_attention_math(query, repeat(key), repeat(value), {}, 0.0, true));
    Tensor attended = apply(layer.output, mixed.transpose(1, 2).reshape({B, S, H * E}));
    if (run_.dropout > 0 && !run_.lora) attended = at::dropout(attended, run_.dropout, true);
    Tensor residual = x_BSD + attended, m = rms_norm(residual, layer.norm2);
    return residual + apply(layer.down, at::silu(apply(layer.gate, m)) * apply(layer.up, m));
  }

  TinyRun run_;
  at::Device device_;
  ledger::Ledger& ledger_;
  at::TensorOptions options_;
  int64_t head_size_;
  Tensor embedding_, norm_, head_, cos_SE_, sin_SE_, anchor_;
  std::vector<Layer> layers_;
};

struct AdamW {
  std::vector<Tensor> means, squares, steps;
  AdamW(const std::vector<Tensor>& trained, ledger::Ledger& ledger) {
    for (const Tensor& p : trained) {
      means.push_back(at::zeros_like(p));
      squares.push_back(at::zeros_like(p));
      steps.push_back(at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false)));
    }
    for (auto* states : {&means, &squares, &steps})
      for (const Tensor& t : *states) ledger.claim(t, Component::kOptimizerStates);
  }
  void step(std::vector<Tensor>& trained) {
    at::NoGradGuard no_grad;
    std::vector<Tensor> gradients;
    for (const Tensor& p : trained) gradients.push_back(p.grad());
    Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
    at::_foreach_mul_(gradients, at::clamp(1.0 / (norm + 1e-6), std::nullopt, at::Scalar(1.0)));
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(trained, gradients, means, squares, {}, steps, 1e-3, 0.9, 0.99, 0.0, 1e-8, false, false);
  }
};

}  // namespace

std::string TinyRun::describe() const {
  std::ostringstream text;
  text << "layers " << shape.layers << ", hidden " << shape.hidden << ", heads " << shape.heads << "/" << shape.kv_heads
       << ", ffn " << shape.ffn << ", vocabulary " << shape.vocabulary << ", " << shape.batch << " x " << shape.sequence
       << (shape.tied ? ", tied" : "") << std::array{", fp32", ", autocast", ", bf16"}[static_cast<size_t>(precision)]
       << (checkpointing ? ", checkpointing" : "") << (lora ? ", LoRA" : ", full") << (flash ? ", flash" : ", math")
       << ", dropout " << dropout << ", accumulation " << accumulation;
  return text.str();
}

memory::Memory play(const TinyRun& run, at::Device device, ledger::Ledger& ledger,
                    const std::function<void()>& after_step) {
  at::manual_seed(1);
  memory::Memory memory;
  {
    ledger.label();
    ledger.begin_phase(Phase::kLoad);
    TinyLlama model(run, device, ledger);
    AdamW optimizer(model.trained, ledger);
    auto integers = at::TensorOptions().device(device).dtype(at::kLong);
    Tensor ids_BS = at::ones({run.shape.batch, run.shape.sequence}, integers), labels_BS = at::zeros_like(ids_BS);
    for (const Tensor& t : {ids_BS, labels_BS}) ledger.claim(t, Component::kFunctionality);
    ledger.end_phase();
    memory.merge(ledger.label());
    for (int step = 0; step < run.steps; step++) {
      for (int micro = 0; micro < run.accumulation; micro++) {
        ledger.begin_phase(Phase::kForward);
        Tensor loss;
        {
          AutocastGuard autocast(device.type(), run.precision == Precision::kAutocast);
          loss = model.loss(ids_BS, labels_BS) / run.accumulation;
        }
        ledger.end_phase();
        ledger.begin_phase(Phase::kBackward);
        torch::autograd::backward({loss}, {});
        loss.reset();
        for (const Tensor& p : model.trained) ledger.claim(p.grad(), Component::kGradients);
        ledger.end_phase();
      }
      ledger.begin_phase(Phase::kOptimizerStep);
      optimizer.step(model.trained);
      for (Tensor& p : model.trained) p.mutable_grad().reset();
      ledger.end_phase();
      memory.merge(ledger.label());
      if (after_step) after_step();
    }
  }
  ledger.label();
  return memory;
}

}  // namespace fathom::phantom
