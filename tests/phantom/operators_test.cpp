// One operator at a time, forward and backward, on the CPU and on the phantom device: shape, strides and type of what
// it returns, live bytes and peak, kernel scratch apart.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <sstream>

#include "phantom/device.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// What a case makes its tensors with.
struct Maker {
  at::Device device;
  at::ScalarType dtype;
  at::TensorOptions options() const { return at::TensorOptions().device(device); }
  Tensor real(at::IntArrayRef size) const { return plain(size).set_requires_grad(true); }
  Tensor plain(at::IntArrayRef size) const { return at::full(size, 0.5, options().dtype(dtype)); }
  Tensor index(at::IntArrayRef size) const { return at::ones(size, options().dtype(at::kLong)); }
  Tensor truth(at::IntArrayRef size) const { return at::ones(size, options().dtype(at::kBool)); }
};

// The result and the gradients of `inputs`, with a gradient that has bytes of its own.
Tensors backward(const Tensor& result, Tensors inputs) {
  torch::autograd::backward({result}, {at::full_like(result, 0.5)});
  Tensors all{result};
  for (const Tensor& t : inputs) all.push_back(t.grad());
  return all;
}

struct Case {
  const char* name;
  std::function<Tensors(const Maker&)> run;
};

struct Observed {
  std::string results;
  int64_t live = 0, peak = 0;
};

Observed observe(const Case& c, const Maker& maker, ledger::Ledger& ledger) {
  ledger.label();
  int64_t before = ledger.live_bytes();
  Tensors results = c.run(maker);
  Observed observed;
  observed.live = ledger.live_bytes() - before;
  std::ostringstream text;
  for (const Tensor& t : results) {
    if (t.defined())
      text << t.scalar_type() << t.sizes() << t.strides() << t.storage().nbytes() << "; ";
    else
      text << "undefined; ";
  }
  observed.results = text.str();
  observed.peak = ledger.label().peak - before;
  return observed;
}

c10::List<std::optional<Tensor>> indices(const Tensor& index) {
  c10::List<std::optional<Tensor>> list;
  list.push_back(index);
  return list;
}

const Case kCases[] = {
    {"linear",
     [](const Maker& m) {
       Tensor x = m.real({3, 7, 12}), w = m.real({5, 12}), b = m.real({5});
       return backward(at::linear(x, w, b), {x, w, b});
     }},
    {"linear of a matrix",
     [](const Maker& m) {
       Tensor x = m.real({7, 12}), w = m.real({5, 12});
       return backward(at::linear(x, w), {x, w});
     }},
    {"matmul of batches",
     [](const Maker& m) {
       Tensor x = m.real({2, 3, 7, 4}), y = m.real({2, 3, 4, 5});
       return backward(at::matmul(x, y), {x, y});
     }},
    {"bmm and baddbmm",
     [](const Maker& m) {
       Tensor x = m.real({3, 7, 4}), y = m.real({3, 4, 5}), z = m.real({3, 7, 5});
       return backward(at::baddbmm(z, x, y) + at::bmm(x, y), {x, y, z});
     }},
    {"einsum",
     [](const Maker& m) {
       Tensor x = m.real({3, 7, 12}), w = m.real({12, 5});
       return backward(at::einsum("bsh,ho->bso", {x, w}), {x, w});
     }},
    {"addmm into a view",
     [](const Maker& m) {
       return Tensors{at::addmm(m.plain({5}), m.plain({7, 4}), m.plain({4, 5}))};
     }},
    {"layer_norm",
     [](const Maker& m) {
       Tensor x = m.real({3, 7, 12}), w = m.real({12}), b = m.real({12});
       return backward(at::layer_norm(x, {12}, w, b), {x, w, b});
     }},
    {"rms_norm",
     [](const Maker& m) {
       Tensor x = m.real({3, 7, 12}), w = m.real({12});
       return backward(at::rms_norm(x, {12}, w, 1e-5), {x, w});
     }},
    {"rms by hand",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(x * at::rsqrt(at::mean(at::pow(x, 2), at::OptionalIntArrayRef({-1}), true) + 1e-6), {x});
     }},
    {"gelu",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::gelu(x) + at::gelu(x, "tanh"), {x});
     }},
    {"silu, sigmoid, tanh, relu",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::silu(x) * at::sigmoid(x) + at::tanh(x) - at::relu(x), {x});
     }},
    {"softmax",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::softmax(x, -1) + at::log_softmax(x, -1), {x});
     }},
    {"softmax in float",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::softmax(x, -1, at::kFloat), {x});
     }},
    {"cross entropy",
     [](const Maker& m) {
       Tensor x = m.real({7, 31});
       return backward(at::cross_entropy_loss(x, m.index({7})), {x});
     }},
    {"cross entropy, sum, ignored labels",
     [](const Maker& m) {
       Tensor x = m.real({7, 31}), labels = m.index({7}) * -100;
       return backward(at::cross_entropy_loss(x, labels, {}, at::Reduction::Sum, -100), {x});
     }},
    {"cross entropy per token",
     [](const Maker& m) {
       Tensor x = m.real({7, 31});
       return backward(at::cross_entropy_loss(x, m.index({7}), {}, at::Reduction::None), {x});
     }},
    {"cross entropy, smoothing",
     [](const Maker& m) {
       Tensor x = m.real({7, 31});
       return backward(at::cross_entropy_loss(x, m.index({7}), {}, 1, -100, 0.1), {x});
     }},
    {"logsumexp",
     [](const Maker& m) {
       Tensor x = m.real({7, 31});
       return backward(at::logsumexp(x, -1), {x});
     }},
    {"embedding",
     [](const Maker& m) {
       Tensor w = m.real({31, 12});
       return backward(at::embedding(w, m.index({2, 7}), 0), {w});
     }},
    {"dropout",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::dropout(x, 0.1, true), {x});
     }},
    {"attention, causal",
     [](const Maker& m) {
       Tensor q = m.real({2, 4, 7, 8}), k = m.real({2, 4, 7, 8}), v = m.real({2, 4, 7, 8});
       return backward(at::scaled_dot_product_attention(q, k, v, {}, 0.0, true), {q, k, v});
     }},
    {"attention, mask",
     [](const Maker& m) {
       Tensor q = m.real({2, 4, 7, 8}), k = m.real({2, 4, 7, 8}), v = m.real({2, 4, 7, 8});
       return backward(at::scaled_dot_product_attention(q, k, v, m.truth({2, 1, 7, 7})), {q, k, v});
     }},
    {"attention, grouped queries",
     [](const Maker& m) {
       Tensor q = m.real({2, 4, 7, 8}), k = m.real({2, 2, 7, 8}), v = m.real({2, 2, 7, 8});
       return backward(at::scaled_dot_product_attention(q, k, v, {}, 0.0, true, {}, true), {q, k, v});
     }},
    {"attention, other values' size, cache",
     [](const Maker& m) {
       Tensor q = m.plain({2, 4, 1, 8}), k = m.plain({2, 4, 9, 8}), v = m.plain({2, 4, 9, 8});
       return Tensors{at::scaled_dot_product_attention(q, k, v)};
     }},
    {"attention, transposed views",
     [](const Maker& m) {
       Tensor x = m.real({2, 7, 4, 8});
       Tensor t = x.transpose(1, 2);
       return backward(at::scaled_dot_product_attention(t, t, t, {}, 0.0, true), {x});
     }},
    {"attention by products",
     [](const Maker& m) {
       Tensor q = m.real({2, 4, 7, 8}), k = m.real({2, 4, 7, 8}), v = m.real({2, 4, 7, 8});
       return backward(std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, {}, 0.0, true)), {q, k, v});
     }},
    {"topk and sort",
     [](const Maker& m) {
       Tensor x = m.real({7, 8});
       auto [top, top_index] = at::topk(x, 2);
       auto [sorted, order] = at::sort(x, -1);
       Tensors all = backward(top.sum() + sorted.sum(), {x});
       all.insert(all.end(), {top_index, order, at::argsort(m.index({9})), at::argmax(x.detach(), -1)});
       return all;
     }},
    {"index, select, gather, scatter",
     [](const Maker& m) {
       Tensor x = m.real({7, 8});
       Tensor taken = at::empty({5, x.size(1)}, x.options());
       at::index_select_out(taken, x.detach(), 0, m.index({5}));
       Tensor y = at::index_select(x, 0, m.index({5})).sum() + at::gather(x, 1, m.index({7, 2})).sum();
       y = y + at::index(x, indices(m.index({4}))).sum() +
           at::scatter_add(x, 1, m.index({7, 2}), m.plain({7, 2})).sum();
       return backward(y, {x});
     }},
    {"index_add, index_put, index_copy",
     [](const Maker& m) {
       Tensor x = m.real({7, 8}), source = m.real({5, 8});
       Tensor y = at::index_add(x, 0, m.index({5}), source);
       Tensor z = m.plain({7, 8});
       z.index_put_(indices(m.index({5})), m.plain({5, 8}), true);
       Tensors all = backward(y, {x, source});
       all.insert(all.end(), {z, at::index_copy(z, 0, m.index({5}), m.plain({5, 8}))});
       return all;
     }},
    {"cat, split, chunk, stack, unbind",
     [](const Maker& m) {
       Tensor x = m.real({8, 12});
       auto parts = at::split(x, 3, 0), halves = at::chunk(x, 2, 1);
       Tensor y = at::cat({parts[0], parts[1]}, 0).sum() + at::stack({halves[0], halves[1]}, 0).sum();
       return backward(y + at::unbind(x, 0)[1].sum() + at::narrow(x, 0, 2, 3).sum(), {x});
     }},
    {"where and masked_fill",
     [](const Maker& m) {
       Tensor x = m.real({7, 12}), y = m.real({7, 12});
       Tensor mask = m.truth({7, 12});
       return backward(at::where(mask, x, y) + at::masked_fill(x, mask, -1e9) + at::where(mask, x, at::Scalar(0.0)),
                       {x, y});
     }},
    {"triu, tril, cumsum, flip, roll",
     [](const Maker& m) {
       Tensor x = m.real({7, 7});
       return backward(at::triu(x, 1) + at::tril(x) + at::cumsum(x, 0) + at::flip(x, {0}) + at::roll(x, 1, 1), {x});
     }},
    {"max, min, amax, var",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       auto [largest, position] = at::max(x, -1);
       Tensors all =
           backward(largest.sum() + at::amax(x, -1).sum() + at::var(x, at::OptionalIntArrayRef({-1}), 1).sum() +
                        at::std(x, at::OptionalIntArrayRef({-1}), 1).sum(),
                    {x});
       all.insert(all.end(), {position, at::max(x.detach()), at::min(x.detach())});
       return all;
     }},
    {"quantizing by the largest value",
     [](const Maker& m) {
       Tensor x = m.plain({7, 12});
       Tensor scale = at::amax(at::abs(x), -1, true) / 127;
       return Tensors{at::clamp(at::round(x / scale), -127, 127).to(at::kChar), scale};
     }},
    {"casts",
     [](const Maker& m) {
       Tensor x = m.plain({7, 12});
       return Tensors{x.to(at::kBFloat16), x.to(at::kHalf), x.to(at::kChar), x.to(at::kFloat8_e4m3fn),
                      x.to(at::kDouble)};
     }},
    {"mixed types",
     [](const Maker& m) {
       Tensor x = m.real({7, 12}), y = at::full({7, 12}, 0.5, m.options()).set_requires_grad(true);
       return backward(x * y + x, {x, y});
     }},
    {"numbers",
     [](const Maker& m) {
       Tensor x = m.plain({7, 12});
       x.mul_(2.0).add_(1).div_(3.0);
       return Tensors{1.0 / (x + 1), x > 0.5, at::isfinite(x), at::isnan(x).any(), x.sum()};
     }},
    {"foreach and clipping",
     [](const Maker& m) {
       Tensors x{m.plain({7, 12}), m.plain({5})};
       Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(x, 2)), 2);
       at::_foreach_mul_(x, at::clamp(1.0 / (norm + 1e-6), std::nullopt, at::Scalar(1.0)));
       at::_foreach_add_(x, x, 1.0);
       at::_foreach_lerp_(x, x, 0.1);
       at::_foreach_addcdiv_(x, x, at::_foreach_sqrt(x), 1.0);
       at::_foreach_zero_(x);
       x.push_back(norm);
       return x;
     }},
    {"making tensors",
     [](const Maker& m) {
       auto o = m.options();
       return Tensors{at::arange(9, o),
                      at::full({3, 4}, 2.0, o),
                      at::linspace(0, 1, 5, o),
                      at::randn({3, 7}, o),
                      at::randint(10, {5}, o.dtype(at::kLong)),
                      at::randperm(9, o.dtype(at::kLong)),
                      at::outer(at::arange(9, o.dtype(at::kFloat)), at::ones({6}, o)),
                      m.plain({5}).bernoulli_(0.5)};
     }},
    {"sampling", [](const Maker& m) { return Tensors{at::multinomial(m.plain({31}), 1)}; }},
    {"copies and views",
     [](const Maker& m) {
       Tensor x = m.real({2, 7, 6});
       return backward(x.permute({2, 0, 1}).contiguous().expand({4, 6, 2, 7}).reshape({24, -1}), {x});
     }},
    {"repeats",
     [](const Maker& m) {
       Tensor x = m.real({2, 2, 7, 4});
       return backward(at::repeat_interleave(x, 3, 1) + x.repeat({1, 3, 1, 1}), {x});
     }},
    {"rotation by complex numbers",
     [](const Maker& m) {
       Tensor x = at::full({7, 6, 2}, 0.5, m.options()).set_requires_grad(true), one = at::ones({7, 6}, m.options());
       return backward(at::view_as_real(at::view_as_complex(x) * at::polar(one, one)), {x});
     }},
    {"bits",
     [](const Maker& m) {
       Tensor x = at::ones({7, 12}, m.options().dtype(at::kByte));
       return Tensors{at::bitwise_or(at::bitwise_and(x, 15), at::bitwise_left_shift(x, 4)),
                      at::bitwise_right_shift(x, 4)};
     }},
    {"losses",
     [](const Maker& m) {
       Tensor x = m.real({7, 12});
       return backward(at::mse_loss(x, m.plain({7, 12})) + at::kl_div(at::log_softmax(x, -1), m.plain({7, 12})), {x});
     }},
    {"fake quantization by channel",
     [](const Maker& m) {
       Tensor x = at::full({7, 12}, 0.5, m.options()).set_requires_grad(true);
       Tensor zero = at::zeros({7}, m.options().dtype(at::kInt));
       return backward(at::fake_quantize_per_channel_affine(x, at::ones({7}, m.options()), zero, 0, -128, 127), {x});
     }},
    {"integer product",
     [](const Maker& m) {
       auto o = m.options().dtype(at::kChar);
       return Tensors{at::_int_mm(at::ones({32, 64}, o), at::ones({64, 32}, o))};
     }},
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Operators : public ::testing::TestWithParam<Case> {};

TEST_P(Operators, AreTheSameOnThePhantom) {
  at::set_num_threads(1);
  ledger::Ledger& cpu = ledger::install_cpu();
  ledger::Ledger phantom;
  set_ledger(&phantom);
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    Maker on_cpu{at::Device(at::kCPU), dtype}, on_phantom{device(), dtype};
    observe(GetParam(), on_cpu, cpu);  // what LibTorch makes once, at the first use
    Observed measured = observe(GetParam(), on_cpu, cpu), predicted = observe(GetParam(), on_phantom, phantom);
    EXPECT_EQ(predicted.results, measured.results) << dtype;
    EXPECT_EQ(predicted.live, measured.live) << dtype;
    EXPECT_EQ(predicted.peak, measured.peak) << dtype;
    EXPECT_EQ(phantom.live_bytes(), 0);
  }
  set_ledger(nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, Operators, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace fathom::phantom
