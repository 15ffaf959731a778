// Each tensor is read and written once.
#include "footprint/elementwise.h"

#include <utility>

namespace fathom::footprint {

namespace {

constexpr const char* kNorm =
    "norms keep their input and 1/rms (Zhang and Sennrich 2019, arXiv 1910.07467), LayerNorm its means too (Ba et al. "
    "2016, arXiv 1607.06450)";

// So many tensors of one width.
Bytes several(const char* what, const char* source, const StepSizes& step, int64_t width, int64_t count) {
  return {what, source, {{count, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}}};
}

}  // namespace

Footprint norm_footprint(const StepSizes& step, int64_t width, bool centred) {
  const Product stored = step.wide(width, step.stored_bytes), computed = step.wide(width, step.compute_bytes);
  Footprint footprint;
  footprint.kept = {{"residual stream, read by norms", kNorm, stored},
                    {"1/rms of norms", kNorm, {{step.tokens, "tokens"}, {4, "bytes"}}}};
  if (centred) footprint.kept.push_back({"means of norms", kNorm, {{step.tokens, "tokens"}, {4, "bytes"}}});
  footprint.forward = {{{"residual stream", kNorm, stored}, {"output of a norm", kNorm, computed}}};
  footprint.backward = {{{"gradient of a norm's output", kGradientSource, computed},
                         {"gradient of a norm's input", kGradientSource, stored}}};
  if (step.cuda && step.casts() && (centred || !step.own_kernels)) {  // LibTorch's answers in the type of its input
    footprint.forward[0].push_back({"output of a norm, before its cast", kNorm, stored});
    footprint.backward[0].push_back({"gradient of a norm's output, cast", kGradientSource, stored});
  }
  return elementwise(std::move(footprint));
}

Footprint row_norm_footprint(const StepSizes& step, int64_t width, int64_t groups) {
  const Product all = step.wide(width, step.compute_bytes);
  return elementwise({{{"rows, read by norms", kNorm, all},
                       {"1/rms of rows", kNorm, {{step.tokens, "tokens"}, {groups, "rows of each"}, {4, "bytes"}}}},
                      {{{"rows, and normalised", kNorm, {{2, "of"}, all[0], all[1], all[2]}}}},
                      {{{"gradients of rows", kGradientSource, {{2, "of"}, all[0], all[1], all[2]}}}}});
}

Footprint rotary_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "turned by their positions (Su et al. 2021, arXiv 2104.09864)";
  const Product both = {{2, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}};
  return elementwise(
      {{}, {{{"heads, before and after", kSource, both}}}, {{{"gradients of heads", kGradientSource, both}}}});
}

Footprint split_footprint(const StepSizes& step, int64_t width, int64_t parts) {
  constexpr const char* kSource = "what a fused projection made, and its parts; lib/ops/linear/split_columns.cpp";
  const int64_t both = width + parts;
  return elementwise({{},
                      {{several("a fused output and its parts", kSource, step, both, 1)}},
                      {{several("gradients of a fused output and its parts", kGradientSource, step, both, 1)}}});
}

Footprint join_footprint(const StepSizes& step, int64_t width, int64_t parts) {
  constexpr const char* kSource = "heads, and the parts that they are made of; lib/ops/join_heads.cpp";
  const int64_t both = width + parts;
  return elementwise({{},
                      {{several("heads and their parts", kSource, step, both, 1)}},
                      {{several("gradients of heads and their parts", kGradientSource, step, both, 1)}}});
}

Footprint scale_footprint(const StepSizes& step, int64_t width) {
  return elementwise({{},
                      {{several("what is scaled", "in place; lib/model/decoder_layer.cpp", step, width, 1)}},
                      {{several("gradients before and after a scale", kGradientSource, step, width, 2)}}});
}

Footprint sum_footprint(const StepSizes& step, int64_t width) {
  return elementwise(
      {{},
       {{several("two parts, one added to the other", "in place; lib/model/decoder_layer.cpp", step, width, 2)}},
       {{several("gradient of a sum", kGradientSource, step, width, 1)}}});
}

Footprint stream_scale_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "in place; lib/model/decoder_layer.cpp";
  const Product stored = step.wide(width, step.stored_bytes);
  return elementwise({{},
                      {{{"residual stream, scaled", kSource, stored}}},
                      {{{"gradient of the residual stream", kGradientSource, stored},
                        {"gradient of the residual stream before its scale", kGradientSource, stored}}}});
}

Footprint gated_rows_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "gated rows keep what they read; lib/ops/gated_rows.cpp";
  const auto gates = [&](const char* what) { return several(what, kSource, step, 1, 1); };
  Footprint footprint = {
      {several("rows that are gated", kSource, step, width, 1), gates("gates of rows")},
      {{several("rows before and behind their gates, and a sum", kSource, step, width, 3)}},
      {{several("gradients of rows and of a sum", kGradientSource, step, width, 2), gates("gradients of gates")}}};
  if (step.cuda) {  // by ATen's operators
    footprint.forward[0].push_back(gates("sigmoids of gates"));
    footprint.backward[0].push_back(several("products of rows and gradients", kSource, step, width, 1));
  }
  return elementwise(std::move(footprint));
}

Footprint convolution_footprint(const StepSizes& step, int64_t width, bool packed) {
  constexpr const char* kSource =
      "a convolution keeps its three parts, and makes all else again; lib/ops/short_convolution.cpp";
  Footprint footprint = {{several("parts of a convolution", kSource, step, width, 3)},
                         {{several("parts of a convolution, and what it makes", kSource, step, width, 4)}},
                         {{several("gradients of a convolution and its parts", kGradientSource, step, width, 4)}}};
  if (step.cuda) {  // by ATen's operators
    footprint.forward[0].push_back(several("products of parts", kSource, step, width, packed ? 2 : 1));
    footprint.backward[0].push_back(several("products of parts, sums and gradients", kSource, step, width, 3));
  }
  return elementwise(std::move(footprint));
}

Footprint gated_norm_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "a gated norm keeps what it reads; lib/ops/gated_norm.cpp";
  Footprint footprint = {{several("rows and their gate", kSource, step, width, 2)},
                         {{several("rows, their gate, and normalised", kSource, step, width, 3)}},
                         {{several("gradients of rows and their gate", kGradientSource, step, width, 3)}}};
  if (step.cuda) {  // by ATen's operators, in FP32
    const auto in_fp32 = [&](int64_t count) -> Bytes {
      return {"rows and gates in FP32", kSource, {{count, "of"}, {step.tokens, "tokens"}, {width, ""}, {4, "bytes"}}};
    };
    footprint.forward[0].push_back(in_fp32(2));
    footprint.backward[0].push_back(in_fp32(6));
  }
  return elementwise(std::move(footprint));
}

bool gate_by_kernel(const StepSizes& step, Activation activation) {
  return !step.cuda || (step.own_kernels && activation == Activation::kSilu);
}

Footprint gate_footprint(const StepSizes& step, int64_t width, Activation activation) {
  constexpr const char* kSource =
      "a gate keeps what it reads, and makes its activation again (Shazeer 2020, arXiv 2002.05202)";
  const int64_t made = gate_by_kernel(step, activation) ? 3 : 4;  // one is of the activation
  return elementwise({{several("gate and up", kSource, step, width, 2)},
                      {{several("gate, up and their product", kSource, step, width, 3)}},
                      {{several("gradients of the gated product, gate and up", kGradientSource, step, width, made)}}});
}

Footprint activation_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "an activation is made again from what it read; lib/ops/activation.cpp";
  return elementwise({{several("what an activation reads", kSource, step, width, 1)},
                      {{several("before and after an activation", kSource, step, width, 2)}},
                      {{several("gradients before and after an activation", kGradientSource, step, width, 2)}}});
}

Footprint dropout_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "dropout keeps what it left out (Srivastava et al. 2014)";
  const Product both = {{2, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}};
  return elementwise({{{"what dropout left out", kSource, {{step.tokens, "tokens"}, {width, "bytes"}}}},
                      {{{"before and after dropout", kSource, both}}},
                      {{{"gradients before and after dropout", kGradientSource, both}}}});
}

}  // namespace fathom::footprint
