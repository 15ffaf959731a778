// The gated short convolution against its formula in double precision, in documents, in threads, and token by token.
#include "ops/short_convolution.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "tests/ops/compare.h"
#include "tests/ops/packed_row.h"
#include "tests/ops/threads.h"

namespace fathom::ops::short_convolution_test {
namespace {

// Each text by itself, padded in front.
at::Tensor formula(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, const std::vector<int64_t>& lengths) {
  const std::vector<at::Tensor> parts = parts_TD.chunk(3, 1);
  const at::Tensor made_TD = parts[0] * parts[2];
  std::vector<at::Tensor> texts;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    const at::Tensor text_1DS = made_TD.narrow(0, first, length).t().unsqueeze(0);
    const int64_t before = taps_DJ.size(1) - 1;
    const at::Tensor padded_1DS = at::constant_pad_nd(text_1DS, {before, 0});
    at::Tensor sum = at::zeros_like(text_1DS);
    for (int64_t j = 0; j <= before; ++j) {
      sum = sum + padded_1DS.narrow(2, j, length) * taps_DJ.select(1, j).view({1, -1, 1});
    }
    texts.push_back(sum.squeeze(0).t());
    first += length;
  }
  return parts[1] * at::cat(texts);
}

// Of the stream and of taps; in double precision there is no kernel, and ATen's operators do what they do on a GPU.
using Types = std::pair<at::ScalarType, at::ScalarType>;
class ShortConvolution : public ::testing::TestWithParam<Types> {
 protected:
  void SetUp() override { at::manual_seed(3); }
  std::vector<at::Tensor> inputs(int64_t tokens, int64_t width, int64_t count) const {
    return {draw({tokens, 3 * width}, GetParam().first), draw({width, count}, GetParam().second)};
  }
};

TEST_P(ShortConvolution, of_rows) {
  for (const auto& [rows, length, width, count] :
       std::vector<std::array<int64_t, 4>>{{3, 11, 7, 3}, {1, 40, 1500, 4}, {4, 1, 5, 3}, {2, 2, 6, 5}, {5, 9, 3, 1}}) {
    const Operator ours = [&](const auto& in) { return gated_convolution(in[0], in[1], length, nullptr); };
    const Operator reference = [&](const auto& in) {
      return formula(in[0], in[1], std::vector<int64_t>(static_cast<size_t>(rows), length));
    };
    expect_equal(ours, reference, inputs(rows * length, width, count));
  }
}

TEST_P(ShortConvolution, of_documents) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{5, 1, 2, 13}, {1, 1, 1}, {30}}) {
    const Documents documents = documents_of(lengths);
    const Operator ours = [&](const auto& in) { return gated_convolution(in[0], in[1], sum(lengths), &documents); };
    const Operator reference = [&](const auto& in) { return formula(in[0], in[1], lengths); };
    expect_equal(ours, reference, inputs(sum(lengths), 19, 3));
  }
}

TEST_P(ShortConvolution, of_tokens_after_others) {
  const int64_t batch = 2, length = 9, width = 5, count = 4;
  const std::vector<at::Tensor> in = inputs(batch * length, width, count);
  const at::Tensor parts_BSD = in[0].view({batch, length, -1});
  const at::Tensor whole = gated_convolution(in[0], in[1], length, nullptr).view({batch, length, width});
  for (const std::vector<int64_t>& passes : {std::vector<int64_t>{5, 1, 1, 2}, {1, 1, 4, 3}, {9}}) {
    const at::Tensor last = at::full({batch, count - 1, width}, 77, GetParam().first);
    int64_t seen = 0;
    for (const int64_t tokens : passes) {
      const at::Tensor parts = parts_BSD.narrow(1, seen, tokens).flatten(0, 1).contiguous();
      const at::Tensor made = convolved_after(parts, in[1], last, seen == 0).view({batch, tokens, width});
      EXPECT_LE(relative_difference(made, whole.narrow(1, seen, tokens)), 2 * tolerance(GetParam().first));
      seen += tokens;
    }
  }
}

TEST_P(ShortConvolution, does_not_depend_on_threads) {
  const Operator ours = [](const auto& in) { return gated_convolution(in[0], in[1], 50, nullptr); };
  const std::vector<at::Tensor> in = inputs(200, 70, 3);
  const Results alone = [&] {
    const Threads one(1);
    return run(ours, in);
  }();
  const Threads several(3);
  const Results together = run(ours, in);
  EXPECT_TRUE(alone.output.equal(together.output));
  for (size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(alone.gradients[i].equal(together.gradients[i]));
}

// A document's last token changes, and nothing of the next one does.
TEST(ShortConvolutionOfDocuments, do_not_see_each_other) {
  const std::vector<int64_t> lengths = {4, 3};
  const Documents documents = documents_of(lengths);
  const at::Tensor parts = draw({7, 18}, at::kFloat), taps = draw({6, 3}, at::kFloat);
  const at::Tensor before = gated_convolution(parts, taps, 7, &documents);
  at::Tensor other = parts.clone();
  other.select(0, 3).fill_(NAN);
  const at::Tensor after = gated_convolution(other, taps, 7, &documents);
  EXPECT_TRUE(before.narrow(0, 4, 3).equal(after.narrow(0, 4, 3)));
  EXPECT_FALSE(gated_convolution(other, taps, 7, nullptr).narrow(0, 4, 3).equal(after.narrow(0, 4, 3)));
}

INSTANTIATE_TEST_SUITE_P(Types, ShortConvolution,
                         ::testing::Values(Types{at::kFloat, at::kFloat}, Types{at::kBFloat16, at::kBFloat16},
                                           Types{at::kBFloat16, at::kFloat}, Types{at::kDouble, at::kDouble}));

}  // namespace
}  // namespace fathom::ops::short_convolution_test
