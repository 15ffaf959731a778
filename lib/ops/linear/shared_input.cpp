// The input as an autograd function, whose backward pass ends those of its layers.
#include "ops/linear/shared_input.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "ops/linear/matrix_product.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kShared = "shared";

struct KeptForShared : torch::CustomClassHolder {
  std::shared_ptr<SharedInput> shared;
  std::shared_ptr<KeptInput> input;  // null where no A that is joined needs a gradient
};

int64_t rows_before(const std::vector<LoraAdapter>& adapters, size_t place) {
  int64_t rows = 0;
  for (size_t i = 0; i < place; ++i) rows += adapters[i].a_RD.size(0);
  return rows;
}

// Of each A; undefined where no gradient reaches them.
variable_list gradients_of_a(const std::vector<LoraAdapter>& joined, const at::Tensor& grad_hidden_TS,
                             KeptInput& input) {
  if (!grad_hidden_TS.defined()) return variable_list(joined.size());
  std::vector<int64_t> ranks(joined.size());
  std::transform(joined.begin(), joined.end(), ranks.begin(), [](const auto& each) { return each.a_RD.size(0); });
  const at::Tensor& x_TD = input.as(grad_hidden_TS.scalar_type());
  return ops::mm(grad_hidden_TS.t(), x_TD, joined.front().a_RD.scalar_type()).split_with_sizes(ranks);
}

struct ShareFunction : torch::autograd::Function<ShareFunction> {
  // a: of the adapters that are joined, those that need a gradient: all or none.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TD, at::TensorList /*a*/,
                            const c10::intrusive_ptr<KeptForShared>& kept) {
    context->set_materialize_grads(false);
    context->saved_data[kShared] = c10::IValue::make_capsule(kept);
    return x_TD;
  }

  // upstream: of those that do not share; undefined where there are none.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptForShared>(std::move(context->saved_data[kShared]).toCapsule());
    SharedInput& shared = *kept->shared;
    at::Tensor grad_x_TD = std::exchange(shared.gradient_TD(), {});
    const at::Tensor grad_hidden_TS = shared.take_grad_hidden_TS();
    variable_list of_a;
    if (kept->input) of_a = gradients_of_a(shared.joined(), grad_hidden_TS, *std::exchange(kept->input, nullptr));
    if (grad_x_TD.defined() && grad_hidden_TS.defined()) ops::addmm_(grad_x_TD, grad_hidden_TS, shared.a_SD());
    if (upstream[0].defined()) grad_x_TD = grad_x_TD.defined() ? grad_x_TD.add_(upstream[0]) : upstream[0];
    variable_list gradients = {std::move(grad_x_TD)};
    gradients.insert(gradients.end(), of_a.begin(), of_a.end());
    gradients.emplace_back();  // of `kept`
    return gradients;
  }
};

// The adapters of all layers, if each has one that reads x_TD as it is. On a CPU oneDNN copies factors that lie with
// gaps in memory, as parts of joined products do; products in FP32 are not its own.
std::vector<LoraAdapter> joined_adapters(const at::Tensor& x_TD, const std::vector<const Linear*>& layers,
                                         const ComputeScope& compute, bool training) {
  if (!x_TD.is_cuda() && x_TD.scalar_type() != at::kFloat) return {};
  std::vector<LoraAdapter> adapters;
  for (const Linear* layer : layers) {
    if (!layer->adapter || (training && layer->adapter->dropout > 0)) return {};
    const LoraAdapter& adapter = adapters.emplace_back(*layer->adapter);
    const LoraAdapter& first = adapters.front();
    if (adapter.a_RD.requires_grad() != first.a_RD.requires_grad() || adapter.scaling != first.scaling) return {};
  }
  const at::NoGradGuard no_gradients;
  for (LoraAdapter& adapter : adapters) {
    adapter.a_cast_RD = compute.weight(adapter.a_RD, adapter.a_cast_RD);
    if (adapter.a_cast_RD.scalar_type() != x_TD.scalar_type()) return {};
  }
  return adapters;
}

}  // namespace

SharedInput::SharedInput(bool needs_gradient, std::vector<LoraAdapter> joined)
    : needs_gradient_(needs_gradient), joined_(std::move(joined)), written_(joined_.size()) {}

std::optional<size_t> SharedInput::place_of(const LoraAdapter& adapter) const {
  const auto is_same = [&](const LoraAdapter& each) { return each.a_RD.is_same(adapter.a_RD); };
  const auto found = std::find_if(joined_.begin(), joined_.end(), is_same);
  if (found == joined_.end()) return std::nullopt;
  return static_cast<size_t>(found - joined_.begin());
}

at::Tensor SharedInput::a_SD() const {
  const at::Tensor& first = joined_.front().a_cast_RD;
  const int64_t width = first.size(1), rows = rows_before(joined_, joined_.size());
  std::vector<at::Tensor> matrices;
  bool end_to_end = true;
  for (size_t i = 0; i < joined_.size(); ++i) {
    const at::Tensor& a_RD = matrices.emplace_back(joined_[i].a_cast_RD);
    end_to_end = end_to_end && a_RD.is_contiguous() && a_RD.is_alias_of(first) &&
                 a_RD.storage_offset() == first.storage_offset() + rows_before(joined_, i) * width;
  }
  return end_to_end ? first.as_strided({rows, width}, {width, 1}) : at::cat(matrices);
}

at::Tensor SharedInput::part(const at::Tensor& all_TS, size_t place) const {
  return all_TS.narrow(1, rows_before(joined_, place), joined_[place].a_RD.size(0));
}

at::Tensor SharedInput::hidden_TR(const at::Tensor& x_TD, size_t place) {
  if (!hidden_TS_.defined()) hidden_TS_ = scaled(multiply_by_weight(x_TD, a_SD(), {}), joined_.front().scaling);
  at::Tensor hidden_TR = part(hidden_TS_, place);
  if (place + 1 == joined_.size()) hidden_TS_.reset();
  return hidden_TR;
}

at::Tensor SharedInput::grad_hidden_to_write_TR(const at::Tensor& like_TN, size_t place) {
  if (!grad_hidden_TS_.defined()) {
    grad_hidden_TS_ = at::empty({like_TN.size(0), rows_before(joined_, joined_.size())},
                                like_TN.options().dtype(joined_.front().a_cast_RD.scalar_type()));
  }
  written_[place] = true;
  return part(grad_hidden_TS_, place);
}

at::Tensor SharedInput::take_grad_hidden_TS() {
  for (size_t i = 0; grad_hidden_TS_.defined() && i < written_.size(); ++i) {
    if (!written_[i]) part(grad_hidden_TS_, i).zero_();
  }
  return grad_hidden_TS_.defined() ? scaled(std::exchange(grad_hidden_TS_, {}), joined_.front().scaling) : at::Tensor();
}

LinearInput shared(const LinearInput& input, const std::vector<const Linear*>& layers, const ComputeScope& compute,
                   bool training) {
  const auto rounds = [](const Linear* layer) { return layer->quantizer.has_value(); };
  if (std::any_of(layers.begin(), layers.end(), rounds)) return input;
  const auto needs = [on = at::GradMode::is_enabled()](const at::Tensor& x) { return on && x.requires_grad(); };
  const auto kept = c10::make_intrusive<KeptForShared>();
  const bool needs_x = needs(input.tensor());
  kept->shared = std::make_shared<SharedInput>(needs_x, joined_adapters(input.tensor(), layers, compute, training));
  const std::vector<LoraAdapter>& joined = kept->shared->joined();
  variable_list trained;
  for (const LoraAdapter& each : joined) {
    if (needs(each.a_RD)) trained.push_back(each.a_RD);
  }
  if (!needs_x && trained.empty()) return joined.empty() ? input : input.shared_as(input.tensor(), kept->shared);
  if (!trained.empty()) kept->input = input.kept();
  return input.shared_as(ShareFunction::apply(input.tensor(), at::TensorList(trained), kept), kept->shared);
}

}  // namespace fathom::ops
