// Rows are pairs of a token and an expert: K for each token.
#include "footprint/experts.h"

#include <algorithm>
#include <utility>

#include "footprint/elementwise.h"
#include "footprint/linear.h"
#include "footprint/quantized_part_size.h"

namespace fathom::footprint {
namespace {

constexpr const char* kRouted = "each token goes to some of the experts (Shazeer et al. 2017, arXiv 1701.06538)";
constexpr const char* kBiases = "biases of experts are a product of which expert each row has; lib/ops/routing.h";
constexpr const char* kOne = "one expert's matrix at a time, on a GPU all; lib/ops/grouped_products.h";

class Experts {
 public:
  Experts(const StepSizes& step, const ExpertSizes& sizes) : step_(step), sizes_(sizes) {}

  Product rows(int64_t width, int64_t bytes) const {
    return {{step_.tokens, "tokens"}, {sizes_.per_token, "experts each"}, {width, ""}, {bytes, "bytes"}};
  }
  Bytes of_rows(const char* what, int64_t width, int64_t times = 1) const {
    Product product = rows(width, step_.compute_bytes);
    if (times != 1) product.insert(product.begin(), {times, "of"});
    return {what, kRouted, std::move(product)};
  }
  Bytes of_tokens(const char* what) const { return {what, kRouted, step_.wide(sizes_.width, step_.compute_bytes)}; }

  // One matrix [out, in] that is made for its products, if it is not there as it is.
  void add_copy(Tensors& moment, const StackSizes& stack, int64_t out, int64_t in) const {
    Product copy = {{out, ""}, {in, ""}, {step_.compute_bytes, "bytes"}};
    if (step_.cuda) copy.insert(copy.begin(), {sizes_.count, "experts"});
    if (stack.codes && step_.cuda && !step_.own_kernels && quant::is_in_4_bits(*stack.codes)) {
      const int64_t numbers = std::min(kDequantizedPart, sizes_.count * out * in);
      moment.push_back({"codes as indices, and what they stand for", kOne, {{numbers / 2, "pairs"}, {4 + 8, "bytes"}}});
    }
    if (stack.codes) moment.push_back({"dequantized matrix of an expert", kOne, copy});
    if (casts(stack)) moment.push_back({"autocast's copy of an expert's matrix", kOne, copy, kCopy});
  }
  void add_cast(Tensors& moment, const StackSizes& stack, int64_t out, int64_t in) const {
    if (!stack.trained || !step_.casts()) return;
    moment.push_back({"gradient of an expert's matrix, before its cast",
                      kOne,
                      {{out, ""}, {in, ""}, {step_.compute_bytes, "bytes"}}});
  }
  // The columns of each expert together: in the type of products, and as gradients in the adapters' own.
  void add_b(Tensors& moment, const StackSizes& stack, int64_t out) const {
    add_columns(moment, "the adapters' second matrices, by experts", stack, out, step_.compute_bytes);
  }
  void add_gradient_of_b(Tensors& moment, const StackSizes& stack, int64_t out) const {
    add_columns(moment, "gradients of the adapters' second matrices, by experts", stack, out, sizeof(float));
  }
  void add_hidden(Tensors& tensors, const StackSizes& stack) const {
    if (stack.rank > 0) tensors.push_back(of_rows("adapters' inner products", stack.rank));
  }

  // Operations of the products of all rows with so many numbers.
  int64_t flops(int64_t numbers) const {
    return value_of({{2, ""}, {step_.tokens, ""}, {sizes_.per_token, ""}, {numbers, ""}});
  }
  // Forward, and backward to the input, with the gradients of what is trained.
  void add_flops(Footprint& footprint, const StackSizes& stack, int64_t out, int64_t in, bool through) const {
    const int64_t weights = value_of({{out, ""}, {in, ""}});
    const bool differentiated = through || stack.keeps_input();
    footprint.forward_work.flops += flops(weights) + flops(stack.rank * (in + out));
    footprint.backward_work.flops += ((through ? 1 : 0) + (stack.trained ? 1 : 0)) * flops(weights);
    if (differentiated) footprint.backward_work.flops += flops(stack.rank * ((through ? 2 : 1) * in + 2 * out));
    const int64_t read = stack.codes ? quant::layout_of(*stack.codes, out, in).bytes()
                                     : value_of({{weights, ""}, {step_.stored_bytes, ""}});
    const int64_t copies =
        stack.codes || casts(stack) ? value_of({{sizes_.count, ""}, {weights * step_.compute_bytes + read, ""}}) : 0;
    footprint.forward_work.bytes += copies;
    if (through) footprint.backward_work.bytes += copies;
    if (stack.trained && step_.casts()) footprint.backward_work.bytes += copies;
  }
  int64_t bytes(const Bytes& each) const { return bytes_of({each}); }

  // Where biases [N, out] are added, or gradients made of them and of the weights that they are weighed by: what is
  // there besides.
  void add_bias_moments(Footprint& footprint, const StackSizes& stack, int64_t out, const Tensors& forward,
                        const Tensors& backward, bool weighed) const {
    if (!sizes_.biased) return;
    const Bytes choices = of_rows("in each row a number for its expert", sizes_.count);
    const Bytes biases = {"biases of experts, in the type of products",
                          kBiases,
                          {{sizes_.count, "experts"}, {out, ""}, {step_.compute_bytes, "bytes"}}};
    footprint.forward.push_back(forward);
    footprint.forward.back().push_back(choices);
    if (step_.casts()) footprint.forward.back().push_back(biases);
    footprint.forward_work.flops += flops(sizes_.count * out);
    footprint.forward_work.bytes += 2 * bytes(of_rows("", out));
    if (!weighed && !stack.trains_biases) return;
    footprint.backward.push_back(backward);
    footprint.backward.back().push_back(choices);
    footprint.backward.back().push_back(biases);
    footprint.backward_work.flops += ((weighed ? 1 : 0) + (stack.trains_biases ? 1 : 0)) * flops(sizes_.count * out);
  }
  // Of so many numbers for each row's product, which ATen's operators make between a clamped gate and what it makes.
  void add_clamped(Tensors& moment, int64_t count) const {
    if (!sizes_.clamped || !step_.cuda) return;
    moment.push_back(of_rows("parts of clamped gates", sizes_.inner, count));
  }

 private:
  void add_columns(Tensors& moment, const char* what, const StackSizes& stack, int64_t out, int64_t bytes) const {
    if (stack.rank == 0) return;
    moment.push_back({what, kLora, {{sizes_.count, "experts"}, {out, ""}, {stack.rank, ""}, {bytes, "bytes"}}});
  }
  bool casts(const StackSizes& stack) const { return step_.casts() && !stack.codes && !stack.comes_cast; }

  const StepSizes& step_;
  const ExpertSizes& sizes_;
};

}  // namespace

Footprint routing_footprint(const StepSizes& step, const ExpertSizes& sizes) {
  const auto of_all = [&](const char* what) { return Bytes{what, kRouted, step.wide(sizes.count, 4)}; };
  const auto of_chosen = [&](const char* what, int64_t bytes) {
    return Bytes{what, kRouted, step.wide(sizes.per_token, bytes)};
  };
  Footprint footprint = {{of_all("scores of routers"), of_chosen("weights of chosen experts", 4),
                          of_chosen("chosen experts", sizes.biased ? 16 : 8),  // and by rows
                          of_chosen("rows by expert, and back", 12)},
                         {{of_all("logits of routers"), of_all("scores of routers")}},
                         {{of_all("gradients of scores"), of_all("gradients of a router's logits"),
                           of_chosen("gradients of weights", 4)}}};
  if (sizes.scores.corrected) {
    footprint.forward.push_back({of_all("scores of routers"), of_all("corrected scores"),
                                 of_chosen("largest corrected scores", 4), of_chosen("chosen experts", 8)});
  }
  return elementwise(std::move(footprint));
}

Footprint expert_gate_up_footprint(const StepSizes& step, const ExpertSizes& sizes) {
  const Experts experts(step, sizes);
  const int64_t width = sizes.width, out = 2 * sizes.inner;
  const Bytes gathered = experts.of_rows("inputs, a row for each expert of a token", width);
  const Bytes made = experts.of_rows("gate and up of experts", sizes.inner, 2);
  const Bytes grads = experts.of_rows("gradients of gate and up of experts", sizes.inner, 2);
  const Bytes upstream = experts.of_tokens("gradient of what experts make");
  Footprint footprint;
  Tensors forward = {gathered, made};
  experts.add_copy(forward, sizes.gate_up, out, width);
  footprint.forward = {forward};
  if (sizes.gate_up.rank > 0) {
    Tensors adapter = {gathered, made};
    experts.add_b(adapter, sizes.gate_up, out);
    footprint.forward.push_back(std::move(adapter));
    experts.add_hidden(footprint.kept, sizes.gate_up);
  }
  experts.add_flops(footprint, sizes.gate_up, out, width, sizes.input_needs_gradient);
  experts.add_bias_moments(footprint, sizes.gate_up, out, {gathered, made}, {upstream, grads}, /*weighed=*/false);
  footprint.forward_work.bytes += 2 * experts.bytes(gathered);
  if (sizes.gate_up.keeps_input()) {
    Tensors of_weight = {upstream, grads, gathered};
    if (sizes.makes_input_again) of_weight.push_back(experts.of_tokens("input of experts, made again"));
    experts.add_hidden(of_weight, sizes.gate_up);
    experts.add_gradient_of_b(of_weight, sizes.gate_up, out);
    experts.add_cast(of_weight, sizes.gate_up, sizes.inner, width);
    footprint.backward.push_back(std::move(of_weight));
    footprint.backward_work.bytes += 2 * experts.bytes(gathered) + 2 * experts.bytes(upstream);
  }
  if (!sizes.input_needs_gradient) return footprint;
  Tensors of_rows = {upstream, grads, experts.of_rows("gradients of inputs, a row for each expert", width)};
  Tensors of_sum = of_rows;
  experts.add_hidden(of_rows, sizes.gate_up);
  experts.add_copy(of_rows, sizes.gate_up, out, width);
  experts.add_hidden(of_sum, sizes.gate_up);
  of_sum.push_back(experts.of_tokens("gradient of the input of experts"));
  footprint.backward.push_back(std::move(of_rows));
  footprint.backward.push_back(std::move(of_sum));
  footprint.backward_work.bytes += experts.bytes(gathered) + experts.bytes(upstream);
  return footprint;
}

Footprint expert_down_footprint(const StepSizes& step, const ExpertSizes& sizes) {
  const Experts experts(step, sizes);
  const int64_t width = sizes.width, inner = sizes.inner;
  const Bytes gates = experts.of_rows("gate and up of experts", inner, 2);
  const Bytes product = experts.of_rows("gated products of experts", inner);
  const Bytes made = experts.of_rows("what each expert makes", width);
  const Bytes sum = experts.of_tokens("what experts make");
  const Bytes upstream = experts.of_tokens("gradient of what experts make");
  const Bytes of_made = experts.of_rows("gradients of what each expert makes", width);
  const Bytes of_product = experts.of_rows("gradients of gated products", inner);
  Footprint footprint;
  footprint.kept = {gates};
  experts.add_hidden(footprint.kept, sizes.down);
  // Gate and up go where no backward pass wants them, as the product does when it was multiplied.
  Tensors down = {product, made};
  experts.add_copy(down, sizes.down, width, inner);
  experts.add_b(down, sizes.down, width);
  Tensors gated = {gates, product};
  experts.add_clamped(gated, 2);
  footprint.forward = {std::move(gated), std::move(down), {made, sum}};
  Tensors through = {upstream, of_made, of_product};
  experts.add_copy(through, sizes.down, width, inner);
  experts.add_b(through, sizes.down, width);
  Tensors of_weight = {upstream, of_made, of_product, product};
  experts.add_gradient_of_b(of_weight, sizes.down, width);
  experts.add_cast(of_weight, sizes.down, width, inner);
  // ATen's operators make one of the activation besides.
  const int64_t of_silu = sizes.clamped || gate_by_kernel(step, Activation::kSilu) ? 0 : 1;
  Tensors of_gates = {upstream, of_product, experts.of_rows("gradients of gate and up of experts", inner, 2 + of_silu)};
  if (sizes.clamped) {
    Tensors gated_again = {upstream, of_made, of_product, product};
    experts.add_clamped(gated_again, 2);
    experts.add_clamped(of_gates, 5);
    footprint.backward = {std::move(gated_again)};
  }
  footprint.backward.push_back(std::move(through));
  footprint.backward.push_back(std::move(of_weight));
  footprint.backward.push_back(std::move(of_gates));
  experts.add_flops(footprint, sizes.down, width, inner, /*through=*/true);
  experts.add_bias_moments(footprint, sizes.down, width, {product, made}, {upstream, of_made, of_product, product},
                           /*weighed=*/true);
  footprint.forward_work.bytes +=
      experts.bytes(gates) + 3 * experts.bytes(product) + experts.bytes(made) + experts.bytes(sum);
  footprint.backward_work.bytes += 2 * experts.bytes(made) + 2 * experts.bytes(gates) + experts.bytes(product) +
                                   2 * experts.bytes(product) + 2 * experts.bytes(product) + 2 * experts.bytes(gates);
  return footprint;
}

}  // namespace fathom::footprint
