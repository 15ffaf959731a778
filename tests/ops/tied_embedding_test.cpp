// The gradient of a matrix that is embedding and head against LibTorch's two, added up by its engine: the same bits.
#include "ops/tied_embedding.h"

#include <torch/csrc/autograd/autograd.h>

#include "footprint/tied_embedding_part.h"
#include "tests/ops/compare.h"

namespace fathom::ops::tied_embedding_test {
namespace {

struct Case {
  int64_t vocabulary, width, tokens;
  at::ScalarType type;
};

enum class Reads { kBoth, kStream, kHead };

void make_gradient(const at::Tensor& stream_TD, const at::Tensor& head_VD, Reads reads) {
  at::Tensor sum = at::zeros({}, at::kFloat);
  if (reads != Reads::kHead) sum = sum + stream_TD.to(at::kFloat).square().sum();
  // A few columns of the head, so that its gradient is not the same everywhere.
  if (reads != Reads::kStream) sum = sum + head_VD.narrow(1, 0, 3).to(at::kFloat).square().sum();
  torch::autograd::backward({sum}, {});
}

void expect_same_gradients(const Case& each, Reads reads) {
  at::manual_seed(7);
  const at::Tensor values_VD = draw({each.vocabulary, each.width}, each.type, 1);
  at::Tensor ids_BS = at::randint(0, each.vocabulary, {2, each.tokens / 2}, at::kLong);
  // Some often, and the borders of parts.
  ids_BS.narrow(1, 0, each.tokens / 4).fill_(each.vocabulary - 1);
  const int64_t part = footprint::tied_part_rows(each.vocabulary, each.width * values_VD.element_size());
  ids_BS[0][0] = 0;
  ids_BS[0][1] = part - 1;
  ids_BS[1][0] = part % each.vocabulary;

  const at::Tensor weight_VD = values_VD.clone().set_requires_grad(true);
  const TiedEmbedding tied = embed_tied(weight_VD, ids_BS);
  make_gradient(tied.stream_TD, tied.head_VD, reads);

  const at::Tensor expected_VD = values_VD.clone().set_requires_grad(true);
  const at::Tensor stream_TD = at::embedding(expected_VD, ids_BS).view({-1, each.width});
  make_gradient(stream_TD, expected_VD, reads);
  EXPECT_TRUE(at::equal(tied.stream_TD, stream_TD));
  EXPECT_TRUE(at::equal(weight_VD.grad(), expected_VD.grad())) << each.vocabulary << " x " << each.width;
}

constexpr Case kSmall{211, 24, 40, at::kFloat};
constexpr Case kTwoParts{5000, 4096, 64, at::kFloat};
constexpr Case kUnevenParts{9001, 4099, 64, at::kBFloat16};

TEST(TiedEmbedding, HasTheGradientOfBothUses) {
  for (const Case& each : {kSmall, kTwoParts, kUnevenParts}) expect_same_gradients(each, Reads::kBoth);
  EXPECT_LT(footprint::tied_part_rows(kTwoParts.vocabulary, kTwoParts.width * 4), kTwoParts.vocabulary);
  EXPECT_NE(kUnevenParts.vocabulary % footprint::tied_part_rows(kUnevenParts.vocabulary, kUnevenParts.width * 2), 0);
}

TEST(TiedEmbedding, HasTheGradientOfOneUseAlone) {
  for (const Reads reads : {Reads::kStream, Reads::kHead}) expect_same_gradients(kSmall, reads);
}

// As a GPU adds them, of more and of fewer tokens than there are ids.
TEST(TiedEmbedding, AddsRowsOfIdsAsAWholeGradientWouldBe) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [vocabulary, tokens] : {std::pair<int64_t, int64_t>{97, 300}, {97, 97}, {500, 60}, {5, 1}}) {
      at::manual_seed(11);
      const at::Tensor gradient_TD = draw({tokens, 6}, type, 1),
                       ids_T = at::randint(0, vocabulary, {tokens}, at::kLong);
      if (tokens > 4) ids_T.narrow(0, 0, tokens / 4).fill_(vocabulary - 1);
      at::Tensor sum_VD = draw({vocabulary, 6}, type, 2);
      const at::Tensor expected_VD = sum_VD + at::embedding_dense_backward(gradient_TD, ids_T, vocabulary, -1, false);
      add_rows_of_ids(sum_VD, gradient_TD, ids_T);
      EXPECT_TRUE(at::equal(sum_VD, expected_VD)) << vocabulary << " ids, " << tokens << " tokens, " << type;
    }
  }
}

TEST(TiedEmbedding, AddsUpOverBackwardPasses) {
  const at::Tensor weight_VD = at::ones({5, 2}).set_requires_grad(true),
                   ids_BS = at::tensor({3, 3, 1}, at::kLong).view({1, 3});
  for (int pass = 0; pass < 2; ++pass) {
    const TiedEmbedding tied = embed_tied(weight_VD, ids_BS);
    torch::autograd::backward({tied.stream_TD.sum() + tied.head_VD.square().sum()}, {});
  }
  const at::Tensor expected_V = at::tensor({4, 6, 4, 8, 4}).to(at::kFloat);
  EXPECT_TRUE(at::equal(weight_VD.grad().select(1, 0), expected_V));
}

}  // namespace
}  // namespace fathom::ops::tied_embedding_test
