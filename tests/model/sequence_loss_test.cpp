// A loss over whole sequences, made of token_logprobs, against the same loss of full logits.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "model/decoder.h"
#include "tests/model/golden.h"

namespace fathom::model {
namespace {

// Direct preference optimization (Rafailov et al. 2023, arXiv 2305.18290): of pairs of rows, the first of which is
// preferred to the second, and what the model gave to both before it was trained.
at::Tensor dpo_loss(const at::Tensor& logprobs_BS, const at::Tensor& before_BS) {
  constexpr double kBeta = 0.1;
  const at::Tensor gained_B = (logprobs_BS - before_BS).sum(1);
  const at::Tensor margin_P = gained_B.view({-1, 2}).select(1, 0) - gained_B.view({-1, 2}).select(1, 1);
  return -at::sigmoid(kBeta * margin_P).log().mean();
}

at::Tensor of_full_logits(Decoder& model, const at::Tensor& ids_BS, const at::Tensor& targets_BS) {
  const at::Tensor scores_BSV = at::log_softmax(model.forward(ids_BS).to(at::kFloat), -1);
  const at::Tensor counts_BS = targets_BS != ops::kIgnoredTarget;
  return scores_BSV.gather(2, targets_BS.clamp_min(0).unsqueeze(2)).squeeze(2) * counts_BS;
}

struct Result {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

class SequenceLoss : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  // Of the golden rows in pairs; an odd one is left out, and a single one has its own end for a partner.
  SequenceLoss() : golden_(std::get<0>(GetParam())) {
    const int64_t rows = golden_.ids_BS.size(0);
    ids_BS_ = rows == 1 ? at::cat({golden_.ids_BS, golden_.ids_BS.flip(1)}) : golden_.ids_BS.narrow(0, 0, rows / 2 * 2);
    targets_BS_ = rows == 1 ? at::cat({golden_.targets_BS, golden_.targets_BS.flip(1)})
                            : golden_.targets_BS.narrow(0, 0, rows / 2 * 2);
  }

  // chunk_rows: of logits at a time; unset: all, by LibTorch's operators.
  Result step(std::optional<int64_t> chunk_rows, bool checkpointing = false) {
    ModelOptions options;
    options.gradient_checkpointing = checkpointing;
    Decoder model = golden_.make(options, std::get<1>(GetParam()));
    const auto logprobs = [&] {
      return chunk_rows ? model.token_logprobs(ids_BS_, targets_BS_, *chunk_rows)
                        : of_full_logits(model, ids_BS_, targets_BS_);
    };
    at::Tensor before_BS;
    {
      const at::NoGradGuard no_gradients;
      before_BS = 1.05 * logprobs();  // as if it had been another model
    }
    const at::Tensor loss = dpo_loss(logprobs(), before_BS);
    torch::autograd::backward({loss}, {});
    return {loss.item<double>(), gradients_of(model)};
  }

  Golden golden_;
  at::Tensor ids_BS_, targets_BS_;
};

TEST_P(SequenceLoss, IsThatOfFullLogitsWhateverTheChunk) {
  const Result expected = step(std::nullopt);
  EXPECT_GT(expected.loss, 0);
  for (const int64_t chunk : {0, 5, 1000}) {
    for (const bool checkpointing : {false, true}) {
      const Result actual = step(chunk, checkpointing);
      EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * expected.loss);
      ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
      for (const auto& [name, gradient] : expected.gradients) {
        EXPECT_LT(relative_difference(actual.gradients.at(name), gradient), 1e-4) << name << ", chunk " << chunk;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SequenceLoss,
                         ::testing::Combine(::testing::Values("tied", "multi_query", "qwen3", "olmo2"),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "_lora" : "_full");
                         });

}  // namespace
}  // namespace fathom::model
