// As lib/ops/head_loss.cpp goes through its chunks.
#include "footprint/head_loss.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "footprint/loss_chunk.h"

namespace fathom::footprint {
namespace {

// A score in so many bytes for each token of the vocabulary, of a chunk of rows.
Bytes scores_of(const char* name, const char* source, int64_t chunk, const HeadSizes& sizes, int64_t bytes) {
  return {name, source, {{chunk, "rows"}, {sizes.vocabulary, ""}, {bytes, "bytes"}}};
}

Product head_in(const HeadSizes& sizes, int64_t bytes) {
  return {{sizes.vocabulary, "tokens of the vocabulary"}, {sizes.width, ""}, {bytes, "bytes"}};
}

Bytes cast_of_head(const HeadSizes& sizes, int64_t bytes) {
  return {"autocast's copy of the head", kAutocastSource, head_in(sizes, bytes), memory::Component::kFunctionality};
}

// What a CPU's product takes where the chunks' gradients are summed in FP32.
Bytes rows_of_gradient(const HeadSizes& sizes, int64_t bytes, const char* source) {
  const int64_t rows = head_gradient_rows(sizes.vocabulary, sizes.width, bytes);
  return {"rows of the head's gradient", source, {{rows, "rows"}, {sizes.width, ""}, {bytes, "bytes"}}};
}

}  // namespace

Footprint head_loss_footprint(const StepSizes& step, const HeadSizes& sizes) {
  constexpr const char* kLogits =
      "one score for each token of the vocabulary, of a chunk of rows; lib/ops/head_loss.cpp";
  constexpr const char* kLoss =
      "gradients of head and input are ready when the forward pass ends; lib/ops/head_loss.cpp";
  const int64_t bytes = step.compute_bytes, all = sizes.vocabulary;
  const bool casts = step.casts() && !sizes.comes_cast;
  const int64_t chunk =
      loss_chunk_rows(sizes.rows, sizes.largest_chunk, all, bytes, !sizes.trained, step.cuda, sizes.spare_bytes);
  const Bytes input = {"input of the head, which becomes its gradient",
                       kLoss,
                       {{sizes.rows, "rows"}, {sizes.width, ""}, {bytes, "bytes"}}};
  Tensors loss = {scores_of("logits", kLogits, chunk, sizes, bytes)};
  if (sizes.capped && sizes.gradients) loss.push_back(scores_of("tanh of logits", kLogits, chunk, sizes, bytes));
  if (!sizes.gradients) loss.push_back(input);
  if (casts) loss.push_back(cast_of_head(sizes, bytes));
  const bool sums_wider = bytes == 2 && (step.stored_bytes == 4 || chunk < sizes.rows);
  Tensors rounded;  // the sum of several chunks, in FP32 until their end
  if (sizes.trained && sums_wider && step.stored_bytes == 2) {
    rounded.push_back({"sum for the head's gradient", kLoss, head_in(sizes, 4)});
    loss.push_back(rounded.front());
  }
  if (step.cuda && !step.own_kernels && bytes == 2) {
    loss.push_back(scores_of("scores in FP32", kLogits, chunk, sizes, 4));
  } else if (!step.cuda && sizes.trained && sums_wider && chunk > 0) {
    loss.push_back(rows_of_gradient(sizes, bytes, kLoss));
  }
  Footprint footprint;
  if (sizes.gradients) footprint.kept = {input};
  footprint.forward = {std::move(loss)};
  if (!rounded.empty()) footprint.forward.push_back(std::move(rounded));
  const int64_t weights = value_of({{all, ""}, {sizes.width, ""}});
  const int64_t scores = value_of({{sizes.rows, ""}, {all, ""}, {bytes, ""}});
  const int64_t products = 1 + (sizes.trained ? 1 : 0) + (sizes.input_needs_gradient ? 1 : 0);
  footprint.forward_work = {value_of({{2 * products, ""}, {sizes.rows, ""}, {weights, ""}}),
                            (products > 1 ? 2 : 1) * scores};
  if (casts) footprint.forward_work.bytes += weights * (step.stored_bytes + bytes);
  if (sizes.trained && sums_wider) {
    const int64_t chunks = chunk == 0 ? 0 : divide_up(sizes.rows, chunk);
    footprint.forward_work.bytes += chunks * weights * 2 * (bytes + 4);
  }
  if (sizes.rows < step.tokens) {
    footprint.backward = {{{"gradient of the last norm's output", kGradientSource, step.wide(sizes.width, bytes)}}};
  }
  return footprint;
}

Footprint logprobs_footprint(const StepSizes& step, const HeadSizes& sizes, int64_t sequences) {
  constexpr const char* kLogits =
      "one score for each token of the vocabulary, of a chunk of rows; lib/ops/token_logprobs.cpp";
  constexpr const char* kKept = "logits are made again from it; lib/ops/token_logprobs.cpp";
  const int64_t bytes = step.compute_bytes, all = sizes.vocabulary;
  const bool casts = step.casts() && !sizes.comes_cast;
  const int64_t chunk = loss_chunk_rows(sizes.rows, sizes.largest_chunk, all, bytes, !sizes.trained, step.cuda);
  const Product rows = {{sizes.rows, "rows"}, {sizes.width, ""}, {bytes, "bytes"}};
  const Bytes input = {"input of the head", kKept, rows};
  const Bytes of_input = {"gradient of the input", kLogits, rows};
  const Bytes of_rows = {"log-probabilities", kLogits, {{sizes.rows, "rows"}, {4, "bytes"}}};
  const Bytes of_gradients = {"gradients of log-probabilities and of losses, and those",
                              kLogits,
                              {{3, "of"}, {sizes.rows, "rows"}, {4, "bytes"}}};
  const Bytes of_tokens = {"log-probabilities, in their places", kLogits, {{step.tokens, "tokens"}, {4, "bytes"}}};
  Tensors loss = {scores_of("logits", kLogits, chunk, sizes, bytes)};
  if (step.cuda && !step.own_kernels && bytes == 2) {
    loss.push_back(scores_of("scores in FP32", kLogits, chunk, sizes, 4));
  }
  Tensors backward = loss;
  loss.push_back(of_rows);
  backward.push_back(of_gradients);
  if (sizes.capped) backward.push_back(scores_of("tanh of logits", kLogits, chunk, sizes, bytes));
  if (sizes.input_needs_gradient) backward.push_back(of_input);
  const bool sums_wider = bytes == 2 && (step.stored_bytes == 4 || chunk < sizes.rows);
  Tensors rounded;  // the sum of several chunks, once the last logits are gone
  if (sizes.trained && sums_wider && step.stored_bytes == 2) {
    rounded.push_back({"sum for the head's gradient", kLogits, head_in(sizes, 4)});
    backward.push_back(rounded.front());
    rounded.push_back(of_gradients);
    if (sizes.input_needs_gradient) rounded.push_back(of_input);
  }
  if (!step.cuda && sizes.trained && sums_wider && chunk > 0) {
    backward.push_back(rows_of_gradient(sizes, bytes, kLogits));
  }
  Footprint footprint;
  if (sizes.gradients) footprint.kept = {input, {"of sequences", kKept, {{sequences, "sequences"}, {16, "bytes"}}}};
  if (sizes.gradients && casts) footprint.kept.push_back(cast_of_head(sizes, bytes));
  if (!sizes.gradients) loss.push_back(input);
  if (!sizes.gradients && casts) loss.push_back(cast_of_head(sizes, bytes));
  footprint.forward = {std::move(loss), {of_rows, of_tokens}};
  const int64_t weights = value_of({{all, ""}, {sizes.width, ""}});
  const int64_t scores = value_of({{sizes.rows, ""}, {all, ""}, {bytes, ""}});
  footprint.forward_work = {value_of({{2, ""}, {sizes.rows, ""}, {weights, ""}}), scores};
  if (!sizes.gradients) return footprint;
  if (!rounded.empty()) footprint.before_gradients.push_back(std::exchange(backward, std::move(rounded)));
  footprint.backward.push_back(std::move(backward));
  if (sizes.rows < step.tokens && sizes.input_needs_gradient) {
    footprint.backward.push_back(
        {of_input, {"gradient of the last norm's output", kGradientSource, step.wide(sizes.width, bytes)}});
  }
  const int64_t products = 1 + (sizes.trained ? 1 : 0) + (sizes.input_needs_gradient ? 1 : 0);
  footprint.backward_work = {value_of({{2 * products, ""}, {sizes.rows, ""}, {weights, ""}}), 2 * scores};
  return footprint;
}

}  // namespace fathom::footprint
