// The accounts of one decoder layer, after lib/model/decoder.cpp and lib/ops.
#include "plan/analytic_layer.h"

#include <algorithm>

#include "train/inputs.h"

namespace fathom::plan {
namespace {

using ledger::Component;

struct Projection {
  const char* name;
  Part part;
  int64_t rows, columns;
};

std::vector<Projection> projections(const LayerSettings& settings) {
  const int64_t width = settings.shape.hidden_size, inner = settings.shape.intermediate_size;
  return {{"q_proj", Part::kQkv, settings.queries(), width}, {"k_proj", Part::kQkv, settings.keys(), width},
          {"v_proj", Part::kQkv, settings.keys(), width},    {"o_proj", Part::kOutput, width, settings.queries()},
          {"gate_proj", Part::kGateUp, inner, width},        {"up_proj", Part::kGateUp, inner, width},
          {"down_proj", Part::kDown, width, inner}};
}

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

constexpr int64_t kStoredAdapterBytes = 4;  // adapters are FP32 whatever the base

Product wide(int64_t tokens, int64_t width, int64_t bytes) {
  return {{tokens, "tokens"}, {width, ""}, {bytes, "bytes"}};
}

Product of(int64_t count, Product product) {
  product.insert(product.begin(), {count, "of"});
  return product;
}

// One FP32 or 16-bit number for each query of each head; `width` of them.
Product per_query(const LayerSettings& settings, int64_t rows, int64_t length, int64_t width, int64_t bytes) {
  Product product = {{rows, "rows"}, {settings.shape.num_attention_heads, "heads"}, {length, ""}};
  if (width != 1) product.push_back({width, ""});
  product.push_back({bytes, "bytes"});
  return product;
}

// Collects what a layer keeps.
class Account {
 public:
  Account(const LayerSettings& settings, const train::BatchShape& batch)
      : s_(settings), batch_(batch), projections_(projections(settings)), tokens_(batch.rows * batch.length) {}

  std::vector<Kept> take() {
    norm("first norm", Part::kFirstNorm, s_.checkpointing);
    projection_input("first norm's output", Part::kQkv, s_.shape.hidden_size);
    attention();
    projection_input("attention's output, joined", Part::kOutput, s_.queries());
    norm("second norm", Part::kSecondNorm, false);
    projection_input("second norm's output", Part::kGateUp, s_.shape.hidden_size);
    add("gate and up", Part::kGate, of(2, wide(tokens_, s_.shape.intermediate_size, s_.compute_bytes)));
    projection_input("gated product", Part::kDown, s_.shape.intermediate_size);
    copies();
    return std::move(kept_);
  }

 private:
  // What a part keeps as soon as its input needs a gradient.
  void add(const std::string& what, Part part, Product product) {
    kept_.push_back({Component::kActivations, what, part, std::move(product), reached(part)});
  }
  void add_always(const std::string& what, Part part, Product product) {
    kept_.push_back({Component::kActivations, what, part, std::move(product), true});
  }

  // Whether the input of a part needs a gradient in the first layer: all of them, or what an adapter came before.
  bool reached(Part part) const {
    return !s_.lora || std::any_of(projections_.begin(), projections_.end(), [&](const Projection& projection) {
      return projection.part > part && s_.adapts(projection.name);
    });
  }

  // Keeps its input, the stream, and one number per token. A checkpoint keeps the stream of the first layer too.
  void norm(const std::string& what, Part part, bool checkpoint) {
    const Product stream = wide(tokens_, s_.shape.hidden_size, s_.stored_bytes);
    if (checkpoint) {
      add_always(what + "'s input", part, stream);
    } else {
      add(what + "'s input", part, stream);
    }
    add(what + "'s 1/rms", part, {{tokens_, "tokens"}, {4, "bytes"}});
  }

  // A trained weight keeps its layer's input; a frozen one does not, but its adapter does.
  void projection_input(const std::string& what, Part part, int64_t width) {
    const int64_t adapted = std::count_if(projections_.begin(), projections_.end(), [&](const Projection& projection) {
      return projection.part == part && s_.adapts(projection.name);
    });
    const bool kept_anyway = part == Part::kOutput && shares_output();
    if (!s_.lora && !kept_anyway) add_always(what, part, wide(tokens_, width, s_.compute_bytes));
    if (adapted == 0) return;
    if (s_.run.lora_dropout > 0) {
      add_always(what + ", dropped out", part, of(adapted, wide(tokens_, width, s_.adapter_bytes)));
      add(what + ", dropout's mask", part, of(adapted, wide(tokens_, width, s_.cuda ? 1 : s_.adapter_bytes)));
    } else if (!kept_anyway || s_.adapter_bytes != s_.compute_bytes) {
      add_always(what, part, wide(tokens_, width, s_.adapter_bytes));
    }
    add_always("adapters' inner products", part, of(adapted, wide(tokens_, s_.run.lora_r, s_.adapter_bytes)));
  }

  // True where the joined heads are a view of what attention keeps as its output anyway. On the CPU the output has the
  // layout of the queries, and folding groups of heads copies those of several rows.
  bool shares_output() const {
    if (s_.math) return false;
    const bool folds =
        s_.shape.num_key_value_heads != s_.shape.num_attention_heads && s_.shape.num_key_value_heads != 1;
    return s_.cuda || !folds || batch_.rows == 1;
  }

  void attention() {
    // The memory-efficient kernel wants keys and values for every query head.
    const int64_t keys = s_.math || s_.flash ? s_.keys() : s_.queries();
    add("queries", Part::kAttention, wide(tokens_, s_.queries(), s_.compute_bytes));
    add("keys and values", Part::kAttention, of(2, wide(tokens_, keys, s_.compute_bytes)));
    if (s_.math) {
      add("probabilities", Part::kAttention,
          per_query(s_, batch_.rows, batch_.length, batch_.length, s_.compute_bytes));
      return;
    }
    add("attention's output", Part::kAttention, wide(tokens_, s_.queries(), s_.compute_bytes));
    const int64_t length = s_.flash ? batch_.length : round_up(batch_.length, 32);
    add("logsumexp", Part::kAttention, per_query(s_, batch_.rows, length, 1, 4));
    if (s_.cuda && s_.flash) add("flash attention's random state", Part::kAttention, {{24, "bytes"}});
  }

  // Autocast's copies: the gradient of the product's other factor needs them.
  void copies() {
    for (const Projection& projection : projections_) {
      const auto add_copy = [&](const std::string& whose, Product product, bool in_first_layer, bool cached) {
        kept_.push_back({Component::kFunctionality, "autocast's copy of " + whose + projection.name, projection.part,
                         std::move(product), in_first_layer, cached});
      };
      if (s_.casts_base) {
        add_copy("", {{projection.rows, ""}, {projection.columns, ""}, {s_.compute_bytes, "bytes"}},
                 reached(projection.part), !s_.lora);
      }
      if (s_.adapts(projection.name) && s_.adapter_bytes != kStoredAdapterBytes) {
        add_copy("the adapter of ",
                 {{projection.rows + projection.columns, ""}, {s_.run.lora_r, "ranks"}, {s_.adapter_bytes, "bytes"}},
                 true, true);
      }
    }
  }

  const LayerSettings& s_;
  const train::BatchShape& batch_;
  const std::vector<Projection> projections_;
  int64_t tokens_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace

LayerSettings::LayerSettings(const model::ModelShape& shape_in, const config::RunConfig& run_in, const Target& target)
    : shape(shape_in),
      run(run_in),
      cuda(target.device == config::Device::kCuda),
      math(target.attention_kernel.starts_with("math")),
      flash(target.attention_kernel.starts_with("flash")),
      lora(run_in.method == config::Method::kLora),
      checkpointing(run_in.gradient_checkpointing),
      stored_bytes(size_of(train::storage_dtype(run_in, shape_in))),
      compute_bytes(run_in.bf16 ? 2 : stored_bytes),
      adapter_bytes(run_in.bf16 ? 2 : 4),
      casts_base(run_in.bf16 && stored_bytes != 2) {
  if (!lora) return;
  for (const std::string& module : model::adapted_modules(shape, run.target_modules)) {
    if (module.find(".layers.0.") != std::string::npos) adapted_.push_back(module.substr(module.rfind('.') + 1));
  }
}

bool LayerSettings::adapts(const char* projection) const {
  return std::find(adapted_.begin(), adapted_.end(), projection) != adapted_.end();
}

std::vector<Kept> kept_by_layer(const LayerSettings& settings, const train::BatchShape& batch) {
  return Account(settings, batch).take();
}

std::vector<Gradient> gradients_of_layer(const LayerSettings& settings) {
  std::vector<Gradient> gradients;
  for (const Projection& projection : projections(settings)) {
    if (!settings.lora) {
      gradients.push_back({projection.name,
                           projection.part,
                           {{projection.rows, ""}, {projection.columns, ""}, {settings.stored_bytes, "bytes"}}});
    } else if (settings.adapts(projection.name)) {
      gradients.push_back({std::string("adapter of ") + projection.name,
                           projection.part,
                           {{projection.rows + projection.columns, ""}, {settings.run.lora_r, "ranks"}, {4, "bytes"}}});
    }
  }
  if (!settings.lora) {
    for (const Part part : {Part::kFirstNorm, Part::kSecondNorm}) {
      gradients.push_back({"norm", part, {{settings.shape.hidden_size, ""}, {settings.stored_bytes, "bytes"}}});
    }
  }
  return gradients;
}

std::vector<Temporary> temporaries_of(Part part, const LayerSettings& s, const train::BatchShape& batch) {
  const int64_t tokens = batch.rows * batch.length, bytes = s.compute_bytes;
  const Product stream = wide(tokens, s.shape.hidden_size, s.stored_bytes);
  std::vector<Temporary> result = {{"gradient of the stream", stream}};
  if (part == Part::kDown) {
    if (bytes != s.stored_bytes) {
      result.push_back({"gradient of the stream, cast", wide(tokens, s.shape.hidden_size, bytes)});
    }
    result.push_back({"gradient of the gated product", wide(tokens, s.shape.intermediate_size, bytes)});
    return result;
  }
  if (part == Part::kGate) {
    // On CUDA one product more than the kernel of the CPU needs.
    result.push_back({"gradients of the gate", of(s.cuda ? 4 : 3, wide(tokens, s.shape.intermediate_size, bytes))});
    return result;
  }
  // A checkpointed segment holds the gradient it was given while its own sum grows.
  if (s.checkpointing) result.push_back({"gradient of the layer's output", stream});
  result.push_back({"gradient of attention's output", wide(tokens, s.queries(), bytes)});
  if (s.math) {
    result.push_back({"gradient of values", wide(tokens, s.keys(), bytes)});
    result.push_back(
        {"gradients of probabilities and scores", of(2, per_query(s, batch.rows, batch.length, batch.length, bytes))});
    return result;
  }
  // The kernels give gradients of keys and values for every query head; CUDA's flash kernel sums them into their own.
  result.push_back({"gradients of queries, keys, values", of(3, wide(tokens, s.queries(), bytes))});
  if (!s.cuda) return result;
  if (s.flash && s.keys() != s.queries()) {
    result.push_back({"gradients of keys and values, summed", of(2, wide(tokens, s.keys(), bytes))});
  }
  // Flash sums the gradient of queries in FP32 too; both keep one FP32 sum for each query.
  const int64_t width = s.flash ? round_up(s.shape.head_dim, 32) + 1 : 1;
  result.push_back({"attention's FP32 sums", per_query(s, batch.rows, round_up(batch.length, 128), width, 4)});
  return result;
}

}  // namespace fathom::plan
