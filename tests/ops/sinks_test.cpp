// Attention with sinks against the softmax over scores and a sink, by every kernel: in rows, over documents, under
// windows and with a cache.
#include "ops/attention/sinks.h"

#include <ATen/core/grad_mode.h>

#include "ops/attention/attention.h"
#include "tests/ops/attention_formula.h"

namespace fathom::ops::sinks_test {
namespace {

struct Case {
  const char* name;
  int64_t rows;
  std::vector<int64_t> documents;  // none: rows of `length` tokens
  int64_t length, heads, key_heads, size, window;
};

const Case kCases[] = {
    {"one_row", 1, {}, 37, 6, 2, 10, 0},
    {"rows", 3, {}, 21, 6, 2, 18, 0},
    {"ungrouped", 2, {}, 70, 3, 3, 8, 0},
    {"multi_query", 2, {}, 15, 5, 1, 14, 0},
    {"single_tokens", 2, {}, 1, 4, 2, 8, 0},
    {"window", 2, {}, 90, 6, 2, 12, 7},
    {"window_of_one", 1, {}, 33, 4, 2, 8, 1},
    {"documents", 1, {5, 1, 33, 2, 17, 1}, 59, 6, 3, 14, 0},
    {"documents_and_window", 1, {5, 90, 1, 41}, 137, 4, 1, 16, 20},
};

constexpr footprint::AttentionKernel kKernels[] = {footprint::AttentionKernel::kFlash,
                                                   footprint::AttentionKernel::kMath,
                                                   footprint::AttentionKernel::kMemoryEfficient};

std::vector<at::Tensor> draw_inputs(const Case& drawn, at::ScalarType type) {
  at::manual_seed(21);
  return {draw({drawn.rows, drawn.length, drawn.heads, drawn.size}, type),
          draw({drawn.rows, drawn.length, drawn.key_heads, drawn.size}, type),
          draw({drawn.rows, drawn.length, drawn.key_heads, drawn.size}, type), draw({drawn.heads}, type, 2)};
}

class Sinks : public ::testing::TestWithParam<std::tuple<Case, footprint::AttentionKernel, at::ScalarType>> {
 protected:
  const Case& drawn() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<2>(GetParam()); }
  std::vector<int64_t> lengths() const {
    return drawn().documents.empty() ? std::vector<int64_t>{drawn().length} : drawn().documents;
  }
  at::Tensor attend(const std::vector<at::Tensor>& in) const {
    const std::optional<Documents> documents =
        drawn().documents.empty() ? std::nullopt : std::optional(documents_of(drawn().documents));
    return causal_attention(in[0], in[1], in[2], std::get<1>(GetParam()), documents ? &*documents : nullptr,
                            drawn().window, in[3]);
  }
};

TEST_P(Sinks, take_their_share_of_each_softmax) {
  expect_equal([this](const auto& in) { return attend(in); },
               [this](const auto& in) { return attention_formula(in, lengths(), drawn().window); },
               draw_inputs(drawn(), type()),
               /*cancelled=*/2);
}

// As under autocast and LoRA: of another type, and frozen.
TEST_P(Sinks, may_be_wider_than_heads_and_need_no_gradient) {
  std::vector<at::Tensor> in = draw_inputs(drawn(), type());
  const at::Tensor sinks = in[3].to(at::kFloat);
  in.pop_back();
  const auto with = [](std::vector<at::Tensor> heads, const at::Tensor& its) {
    heads.push_back(its);
    return heads;
  };
  expect_equal([&](const auto& heads) { return attend(with(heads, sinks)); },
               [&](const auto& heads) {
                 return attention_formula(with(heads, sinks.to(at::kDouble)), lengths(), drawn().window);
               },
               in);
}

TEST_P(Sinks, that_are_low_change_nothing) {
  std::vector<at::Tensor> in = draw_inputs(drawn(), type());
  in[3].fill_(-200);
  const at::NoGradGuard no_gradients;
  const at::Tensor with = attend(in);
  in[3] = at::Tensor();
  EXPECT_LE(relative_difference(with, attend(in)), tolerance(type()));
}

TEST_P(Sinks, with_a_cache_equal_the_formula) {
  if (!drawn().documents.empty()) GTEST_SKIP() << "a cache has one text for each row";
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> in = draw_inputs(drawn(), type());
  std::vector<at::Tensor> wide;
  for (const at::Tensor& each : in) wide.push_back(each.to(at::kDouble));
  const at::Tensor whole = attention_formula(wide, lengths(), drawn().window);
  for (const int64_t added : {int64_t{1}, int64_t{3}, drawn().length}) {
    if (added > drawn().length) continue;
    const int64_t first = drawn().length - added;
    const at::Tensor last = cached_attention(in[0].narrow(1, first, added), in[1].transpose(1, 2),
                                             in[2].transpose(1, 2), std::get<1>(GetParam()), drawn().window, in[3]);
    EXPECT_LE(relative_difference(last, whole.narrow(1, first, added)), tolerance(type())) << added;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Sinks,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::ValuesIn(kKernels),
                                            ::testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& info) {
                           const std::string kernel = footprint::kernel_name(std::get<1>(info.param));
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  kernel.substr(0, kernel.find_first_of("- ")) + "_" +
                                  at::toString(std::get<2>(info.param));
                         });

// The kernel of a CPU and ATen's operators, which a GPU has, on what an attention kernel may have made.
TEST(SinksOfOutputs, are_the_same_by_kernel_and_by_operators) {
  at::manual_seed(22);
  const at::Tensor out = draw({11, 3, 5}, at::kFloat), grad = draw({11, 3, 5}, at::kFloat),
                   sums = draw({11, 3}, at::kFloat, 3), sinks = draw({3}, at::kFloat, 3);
  const at::Tensor by_kernel = out.clone(), sums_of_kernel = sums.clone();
  add_sinks(by_kernel, sums_of_kernel, sinks);
  const at::Tensor wide = out.to(at::kDouble), wide_sums = sums.to(at::kDouble);
  add_sinks(wide, wide_sums, sinks.to(at::kDouble));
  EXPECT_LE(relative_difference(by_kernel, wide), 1e-6);
  EXPECT_LE(relative_difference(sums_of_kernel, wide_sums), 1e-6);
  EXPECT_LE(relative_difference(gradient_of_sinks(grad, by_kernel, sums_of_kernel, sinks),
                                gradient_of_sinks(grad.to(at::kDouble), wide, wide_sums, sinks.to(at::kDouble))),
            1e-6);
}

}  // namespace
}  // namespace fathom::ops::sinks_test
