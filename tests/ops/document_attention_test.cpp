// Attention over documents and under a sliding window: against the formula, against each document alone, and bit by bit
// where another document changes.
#include <ATen/core/grad_mode.h>

#include <numeric>

#include "footprint/attention_segments.h"
#include "ops/attention/attention.h"
#include "tests/ops/attention_formula.h"

namespace fathom::ops::document_attention_test {
namespace {

struct Heads {
  int64_t heads, key_heads, size;
};

std::vector<at::Tensor> draw_heads(int64_t rows, int64_t tokens, const Heads& heads, at::ScalarType type) {
  at::manual_seed(8);
  return {draw({rows, tokens, heads.heads, heads.size}, type), draw({rows, tokens, heads.key_heads, heads.size}, type),
          draw({rows, tokens, heads.key_heads, heads.size}, type)};
}

struct Case {
  const char* name;
  std::vector<int64_t> lengths;
  Heads heads;
  int64_t window;
};

const Case kCases[] = {
    {"one_document", {37}, {6, 2, 10}, 0},
    {"single_tokens", {1, 1, 2, 1}, {4, 2, 8}, 0},
    {"odd_lengths", {5, 1, 33, 2, 17, 1}, {6, 3, 14}, 0},
    {"many_documents", std::vector<int64_t>(70, 3), {3, 3, 8}, 0},
    {"multi_query", {40, 7, 211}, {5, 1, 12}, 0},
    {"window", {50}, {6, 2, 10}, 7},
    {"window_of_two", {33, 2, 1}, {2, 2, 8}, 2},
    {"window_as_long_as_a_document", {7, 8, 6, 1}, {4, 2, 8}, 7},
    {"documents_and_window", {5, 90, 1, 41, 300}, {4, 1, 16}, 40},
    {"window_beyond_the_kernels_blocks", {1500, 3}, {2, 1, 8}, 700},
};

constexpr footprint::AttentionKernel kKernels[] = {footprint::AttentionKernel::kFlash,
                                                   footprint::AttentionKernel::kMath,
                                                   footprint::AttentionKernel::kMemoryEfficient};

using Parameters = std::tuple<Case, footprint::AttentionKernel, at::ScalarType>;

class DocumentAttention : public ::testing::TestWithParam<Parameters> {};

TEST_P(DocumentAttention, equals_the_formula) {
  const auto& [drawn, kernel, type] = GetParam();
  const int64_t tokens = std::accumulate(drawn.lengths.begin(), drawn.lengths.end(), int64_t{0});
  const Documents documents = documents_of(drawn.lengths);
  expect_equal([&, kernel = kernel, window = drawn.window](
                   const auto& in) { return causal_attention(in[0], in[1], in[2], kernel, &documents, window); },
               [&, lengths = drawn.lengths, window = drawn.window](const auto& in) {
                 return attention_formula(in, lengths, window);
               },
               draw_heads(1, tokens, drawn.heads, type));
}

// What one document is given does not show in another, forward or backward.
TEST_P(DocumentAttention, of_one_document_is_the_same_bits_whatever_the_others_are) {
  const auto& [drawn, kernel, type] = GetParam();
  const Documents documents = documents_of(drawn.lengths);
  const int64_t tokens = std::accumulate(drawn.lengths.begin(), drawn.lengths.end(), int64_t{0});
  const int64_t first = drawn.lengths.front();
  const auto op = [&, kernel = kernel, window = drawn.window](const auto& in) {
    return causal_attention(in[0], in[1], in[2], kernel, &documents, window);
  };
  const std::vector<at::Tensor> inputs = draw_heads(1, tokens, drawn.heads, type);
  const Results before = run(op, inputs);
  std::vector<at::Tensor> changed;
  for (const at::Tensor& input : inputs) {
    changed.push_back(input.clone());
    changed.back().narrow(1, 0, 1).add_(3);
  }
  const Results after = run(op, changed);
  const auto rest = [&](const at::Tensor& x) { return x.narrow(1, first, tokens - first); };
  EXPECT_TRUE(at::equal(rest(before.output), rest(after.output)));
  EXPECT_FALSE(at::equal(before.output, after.output));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(at::equal(rest(before.gradients[i]), rest(after.gradients[i]))) << i;
  }
}

TEST_P(DocumentAttention, equals_each_document_alone) {
  const auto& [drawn, kernel, type] = GetParam();
  const at::NoGradGuard no_gradients;
  const Documents documents = documents_of(drawn.lengths);
  const int64_t tokens = std::accumulate(drawn.lengths.begin(), drawn.lengths.end(), int64_t{0});
  const std::vector<at::Tensor> in = draw_heads(1, tokens, drawn.heads, type);
  const at::Tensor packed = causal_attention(in[0], in[1], in[2], kernel, &documents, drawn.window);
  int64_t start = 0;
  for (const int64_t length : drawn.lengths) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(1, start, length); };
    const at::Tensor alone = causal_attention(part(in[0]), part(in[1]), part(in[2]), kernel, nullptr, drawn.window);
    EXPECT_LE(relative_difference(part(packed), alone), tolerance(type));
    start += length;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DocumentAttention,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::ValuesIn(kKernels),
                                            ::testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& info) {
                           const std::string kernel = footprint::kernel_name(std::get<1>(info.param));
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  kernel.substr(0, kernel.find_first_of("- ")) + "_" +
                                  at::toString(std::get<2>(info.param));
                         });

class WindowAttention
    : public ::testing::TestWithParam<std::tuple<int64_t, footprint::AttentionKernel, at::ScalarType>> {};

TEST_P(WindowAttention, of_rows_equals_the_formula) {
  const auto& [window, kernel, type] = GetParam();
  expect_equal([window = window, kernel = kernel](
                   const auto& in) { return causal_attention(in[0], in[1], in[2], kernel, nullptr, window); },
               [window = window](const auto& in) { return attention_formula(in, {in[0].size(1)}, window); },
               draw_heads(3, 45, {6, 2, 12}, type));
}

TEST_P(WindowAttention, with_a_cache_equals_the_formula) {
  const auto& [window, kernel, type] = GetParam();
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> in = draw_heads(2, 45, {6, 2, 12}, type);
  const at::Tensor whole =
      attention_formula({in[0].to(at::kDouble), in[1].to(at::kDouble), in[2].to(at::kDouble)}, {45}, window);
  for (const int64_t added : {1, 3, 20, 45}) {
    const at::Tensor last = cached_attention(in[0].narrow(1, 45 - added, added), in[1].transpose(1, 2),
                                             in[2].transpose(1, 2), kernel, window);
    EXPECT_LE(relative_difference(last, whole.narrow(1, 45 - added, added)), tolerance(type)) << added;
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, WindowAttention,
                         ::testing::Combine(::testing::Values(2, 7, 44, 45, 46), ::testing::ValuesIn(kKernels),
                                            ::testing::Values(at::kFloat, at::kBFloat16)));

TEST(AttentionSegments, cover_every_visible_pair_once) {
  for (const int64_t window : {0, 1, 5, 40, 300}) {
    const std::vector<int64_t> lengths = {3, 1, 77, 40, 900};
    int64_t pairs = 0, tokens = 0;
    for (const footprint::AttentionSegment& segment : footprint::attention_segments(lengths, window)) {
      EXPECT_EQ(segment.first_query, tokens);
      tokens += segment.queries;
      pairs += segment.windowed ? segment.queries * window : segment.queries * (segment.queries + 1) / 2;
      EXPECT_EQ(segment.keys, segment.windowed ? segment.queries + window - 1 : segment.queries);
    }
    EXPECT_EQ(tokens, 1021);
    EXPECT_EQ(pairs, footprint::visible_pairs(lengths, window));
  }
}

}  // namespace
}  // namespace fathom::ops::document_attention_test
