// Attention: fused and plain against the formula in double precision, grouped queries, and a cache.
#include "ops/attention/attention.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "tests/ops/compare.h"

namespace fathom::ops::attention_test {
namespace {

// keys and values repeated for every query head, the mask spelled out.
at::Tensor formula(const std::vector<at::Tensor>& in) {
  const int64_t length = in[0].size(1), positions = in[1].size(1), repeats = in[0].size(2) / in[1].size(2);
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].repeat_interleave(repeats, 2).transpose(1, 2);
  const at::Tensor v = in[2].repeat_interleave(repeats, 2).transpose(1, 2);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor hidden = at::ones({length, positions}, at::kBool).triu(positions - length + 1);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2).flatten(2);
}

struct Shape {
  const char* name;
  int64_t rows, length, heads, key_heads, size;
};

class Attention : public ::testing::TestWithParam<std::tuple<Shape, footprint::AttentionKernel, at::ScalarType>> {};

TEST_P(Attention, equals_the_formula) {
  const auto& [shape, kernel, type] = GetParam();
  at::manual_seed(8);
  const at::Tensor q = draw({shape.rows, shape.length, shape.heads, shape.size}, type);
  const at::Tensor k = draw({shape.rows, shape.length, shape.key_heads, shape.size}, type);
  const at::Tensor v = draw({shape.rows, shape.length, shape.key_heads, shape.size}, type);
  expect_equal([kernel = kernel](const auto& in) { return causal_attention(in[0], in[1], in[2], kernel); }, formula,
               {q, k, v});
  EXPECT_TRUE(causal_attention(q, k, v, kernel).is_contiguous());  // as readers of tokens view it
}

TEST_P(Attention, with_a_cache_equals_the_formula) {
  const auto& [shape, kernel, type] = GetParam();
  const at::NoGradGuard no_gradients;
  at::manual_seed(8);
  const at::Tensor k = draw({shape.rows, shape.length, shape.key_heads, shape.size}, type);
  const at::Tensor v = draw({shape.rows, shape.length, shape.key_heads, shape.size}, type);
  for (const int64_t added : {int64_t{1}, int64_t{3}, shape.length}) {
    const at::Tensor q = draw({shape.rows, added, shape.heads, shape.size}, type);
    const at::Tensor actual = cached_attention(q, k.transpose(1, 2), v.transpose(1, 2), kernel);
    const at::Tensor expected = formula({q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble)});
    EXPECT_LE(relative_difference(actual, expected), tolerance(type)) << added;
  }
}

constexpr Shape kShapes[] = {{"one_row", 1, 37, 6, 2, 10},   {"rows", 3, 21, 6, 2, 18},
                             {"ungrouped", 2, 300, 3, 3, 8}, {"multi_query", 2, 15, 5, 1, 14},
                             {"long_row", 1, 210, 4, 2, 16}, {"heads_of_one", 3, 21, 4, 2, 1}};

INSTANTIATE_TEST_SUITE_P(Kernels, Attention,
                         ::testing::Combine(::testing::ValuesIn(kShapes),
                                            ::testing::Values(footprint::AttentionKernel::kFlash,
                                                              footprint::AttentionKernel::kMath,
                                                              footprint::AttentionKernel::kMemoryEfficient),
                                            ::testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& info) {
                           std::string kernel = footprint::kernel_name(std::get<1>(info.param));
                           std::replace_if(
                               kernel.begin(), kernel.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return std::string(std::get<0>(info.param).name) + "_" + kernel + "_" +
                                  at::toString(std::get<2>(info.param));
                         });

TEST(AttentionKernelOf, the_cpu_follows_the_configuration) {
  EXPECT_EQ(attention_kernel(config::Attention::kFlash, at::kCPU, at::kFloat, 10), footprint::AttentionKernel::kFlash);
  EXPECT_EQ(attention_kernel(config::Attention::kMath, at::kCPU, at::kFloat, 10), footprint::AttentionKernel::kMath);
  EXPECT_EQ(footprint::kernel_name(footprint::AttentionKernel::kMemoryEfficient), "memory-efficient attention");
}

}  // namespace
}  // namespace fathom::ops::attention_test
