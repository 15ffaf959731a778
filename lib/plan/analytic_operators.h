// The operators of the training step by the tensors that they take, keep and give back, in the order of lib/ops and
// LibTorch 2.11: a second telling of the step, in sizes alone. No torch header.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arch/parameter_table.h"
#include "arch/shape.h"
#include "config/run_config.h"
#include "ops/attention_segments.h"
#include "plan/analytic_account.h"

namespace fathom::plan {

// Sizes of elements and the switches that decide what is kept. Letters are those of base/shapes.h.
struct StepSettings {
  StepSettings(const arch::ModelShape& shape, const config::RunConfig& run, const Target& target);

  const arch::ModelShape& shape;
  const config::RunConfig& run;
  bool cuda = false;
  bool math = false, flash = false;  // the attention kernel; neither: memory-efficient
  bool amx = false;                  // flash attention runs in the CPU's tiles
  int64_t threads = 0;               // of the CPU
  bool wide_tiles = false;           // the GPU's shared memory holds 128 rows of a tile of that kernel
  bool lora = false;
  std::optional<quant::Scheme> scheme;       // of the frozen projections; unset: as dtype says
  std::optional<quant::Scheme> fake_scheme;  // to which they are rounded while they are trained
  arch::ParameterTable parameters;
  std::set<std::string> trained;  // names of the parameters that are
  bool checkpointing = false;
  int64_t stored_bytes = 4;   // an element of base weights and of the stream from layer to layer
  int64_t compute_bytes = 4;  // of matrix products: 2 under autocast
  int64_t adapter_bytes = 4;  // in which adapters compute
  bool casts_base = false;    // autocast copies the base weights
  bool scales_loss = false;   // products in FP16
  bool own_kernels = false;   // fathom's on a GPU, which take FP32 and BF16
  int64_t queries() const { return shape.num_attention_heads * shape.head_dim; }  // H * E
  int64_t keys() const { return shape.num_key_value_heads * shape.head_dim; }     // K * E
  bool trains(const std::string& parameter) const { return trained.contains(parameter); }
  bool trains_embedding() const { return parameters.rows.front().trained; }
  bool trains_head() const { return parameters.trains_head(); }
  bool grouped() const { return shape.num_key_value_heads != shape.num_attention_heads; }
};

// A value of the step. Its gradient adds up in the slot; no slot: it needs none.
struct Slot {
  Tensor gradient;
  bool strided = false;  // not contiguous: who needs it so copies it
};
struct Value {
  Tensor data;
  std::shared_ptr<Slot> slot;
};

// A matrix of the model, with its bias and its adapter where it has them.
struct Weight {
  Weight(std::string name, int64_t rows, int64_t columns, bool bias, bool adapted, bool trained);
  std::string name, copy_name, gradient_name, adapter_name, adapter_copy_name, adapter_gradient_name;
  int64_t rows, columns;  // output and input features
  bool bias, adapted, trained;
  int64_t steps = 0;  // that are learned; 0: it is not rounded
  Tensor gradient, gradient_bias, gradient_a, gradient_b, gradient_steps;
  Tensor copy, copy_bias, copy_a, copy_b;  // in autocast's cache
};

struct NormWeight {
  bool trained = false;
  Tensor gradient;
};

// What linear layers read: cast to the adapters' type at most once, and kept for their backward passes, or made again
// from what its operator keeps anyway (ops/linear_input.h).
struct LinearInput {
  LinearInput() = default;
  explicit LinearInput(Value value, std::function<Tensor()> again = nullptr);
  struct Kept {
    Tensor tensor;  // null where `again` takes it
    std::function<Tensor()> again;
    Tensor made;
    int64_t made_bytes = 0;  // of an element
  };
  Value x;
  Tensor cast;
  std::shared_ptr<Kept> kept;
};

class Operators {
 public:
  Operators(const StepSettings& settings, Account& account, const train::BatchShape& batch);

  // ---- as in lib/ops; each remembers its backward pass if gradients are on and its input or weight needs one.
  Value norm(const Value& stream, const char* name, NormWeight& weight);
  // The norm for linear layers, which have it made again.
  LinearInput normed_input(const Value& stream, const char* name, NormWeight& weight);
  // Each token's `width` numbers are so many groups, each normalised by itself.
  Value row_norm(const Value& x, int64_t groups, int64_t width, const char* name, NormWeight& weight);
  // The stream in the type of products.
  Value narrowed(const Value& stream);
  // source: why the output is there.
  Value linear(LinearInput& input, Weight& weight, const char* output_name, const char* source);
  // What linear layers read with qat_activations; else the input itself.
  LinearInput rounded_input(LinearInput input, int64_t width);
  Value rotate(const Value& x, int64_t width, const char* name);
  // window: of the layer; 0: none.
  Value attention(const Value& queries, const Value& keys, const Value& values, int64_t window);
  LinearInput swiglu(const Value& gate, const Value& up);
  // The branch is of the compute type; the sum is the stream.
  Value add(Value branch, const Value& stream, const char* name);

  void set_gradients(bool on) { gradients_ = on; }
  bool gradients() const { return gradients_; }
  void set_training(bool on) { training_ = on; }
  Account& account() { return account_; }
  const StepSettings& settings() const { return s_; }
  const train::BatchShape& batch() const { return batch_; }
  int64_t tokens() const { return tokens_; }
  // Rows that the head reads.
  int64_t counted_rows() const { return s_.run.loss_chunk_size == 0 ? tokens_ : batch_.targets; }

  // The part of the step that comes next, "attention"; layer: from 1, 0 for none.
  void enter(const char* part, int64_t layer);
  void set_pass(const char* pass) { pass_ = pass; }  // "forward pass"
  // Rotary tables of the batch's own, which every rotation keeps; null: the model's.
  void set_positions(Tensor cosines, Tensor sines) { positions_ = {std::move(cosines), std::move(sines)}; }
  const std::array<Tensor, 2>& positions() const { return positions_; }

  // ---- the graph.
  using Backward = std::function<void()>;
  void remember(Backward backward) { graph_.push_back({std::move(backward), account_.layer(), part_}); }
  // Runs and forgets what was remembered since `first`, the latest first.
  size_t remembered() const { return graph_.size(); }
  void run_backward(size_t first);
  void accumulate(const std::shared_ptr<Slot>& slot, Tensor gradient, const Product& product);
  void give_gradient(Tensor& gradient, Tensor made);  // to a weight
  std::shared_ptr<Slot> new_slot(bool needed) const;

  // ---- autocast.
  void clear_cache();
  Tensor cast_weight(Tensor& cached, bool trained, const std::string& name, const Product& product);

  Tensor take(const char* what, const char* source, const Product& product) {
    return account_.take(what, source, product);
  }
  Product wide(int64_t width, int64_t bytes) const { return {{tokens_, "tokens"}, {width, ""}, {bytes, "bytes"}}; }
  Product each_query(int64_t width, int64_t bytes) const;  // for each query of each head

 private:
  std::array<Tensor, 2> norm_output(const char* name);
  struct KeptOfLinear;
  Tensor input_again(LinearInput::Kept& kept, int64_t columns, int64_t bytes);
  Tensor base_for_product(Weight& weight);
  Tensor dequantized(const Weight& weight);
  Tensor merged_weight(const Weight& weight);
  Tensor rounded_weight(const Weight& weight, Tensor merged);
  Value fake_quantized_linear(LinearInput& input, Weight& weight, const char* output_name, const char* source);
  void fake_quantized_backward(std::shared_ptr<LinearInput::Kept>& kept, Weight& weight, Slot& output,
                               const std::shared_ptr<Slot>& x);
  Tensor round_tokens(int64_t width);
  void add_adapter(LinearInput& input, Weight& weight, KeptOfLinear& kept, Value& result, const char* output_name);
  Tensor gradient_of_weight(const std::string& name, Product size, int64_t stored_bytes);
  void linear_backward(KeptOfLinear& kept, Weight& weight, Slot& output, const std::shared_ptr<Slot>& x);
  Tensor adapter_backward(KeptOfLinear& kept, Weight& weight, Tensor& of_a, Tensor& of_b);
  void add_through_adapter(const KeptOfLinear& kept, const Weight& weight);
  void give_heads(const std::shared_ptr<Slot>& slot, Tensor made, bool queries, bool pads, bool strided);
  // Of queries, keys and values, as attention's backward passes make them: at once, before they let go of what they
  // keep.
  std::array<Tensor, 3> take_gradients(const Product& of_queries, const Product& of_keys);
  Value cuda_flash(const Value& queries, const Value& keys, const Value& values);
  Value cpu_flash(const Value& queries, const Value& keys, const Value& values);
  Value math_attention(const Value& queries, const Value& keys, const Value& values);
  struct Limits {  // sequences, and positions that a query sees; 0: all
    std::vector<int64_t> lengths;
    int64_t longest = 0, window = 0;
  };
  Limits limits_of(int64_t window) const;  // of the batch; a window that shows all is none
  Value amx_attention(const Value& queries, const Value& keys, const Value& values, const Limits& limits);
  Value limited_attention(const Value& queries, const Value& keys, const Value& values, int64_t window);
  Tensor window_mask(const Limits& limits);
  Value flash_segments(const Value& queries, const Value& keys, const Value& values, const Limits& limits);
  std::array<Tensor, 3> segment_gradients(const std::vector<ops::AttentionSegment>& segments, bool overlap);
  Value document_math(const Value& queries, const Value& keys, const Value& values, const Limits& limits);
  // By lib/ops/cuda_attention.cpp: the memory-efficient kernel also without limits.
  Value limited_cuda(const Value& queries, const Value& keys, const Value& values, const Limits& limits);
  void take_flash_sums(const Limits& limits, int64_t size, const Product& every_head);
  void take_efficient_sums(const Product& each_document, int64_t longest, int64_t size, const Product& every_head);

  struct Node {
    Backward backward;
    int64_t layer;
    const char* part;
  };
  void announce(const char* pass, const char* part, int64_t layer);
  const StepSettings& s_;
  Account& account_;
  const train::BatchShape batch_;
  const int64_t tokens_;
  bool gradients_ = true, training_ = true;
  std::vector<Node> graph_;
  std::vector<Tensor*> cache_;
  std::array<Tensor, 2> positions_;
  const char *part_ = "", *pass_ = "forward pass";
};

}  // namespace fathom::plan
