// Each tensor is read and written once.
#include "footprint/elementwise.h"

#include <utility>

namespace fathom::footprint {

namespace {

constexpr const char* kNorm = "RMSNorm keeps its input and 1/rms (Zhang and Sennrich 2019, arXiv 1910.07467)";

}  // namespace

Footprint rms_norm_footprint(const StepSizes& step, int64_t width) {
  const Product stored = step.wide(width, step.stored_bytes), computed = step.wide(width, step.compute_bytes);
  Footprint footprint;
  footprint.kept = {{"residual stream, read by norms", kNorm, stored},
                    {"1/rms of norms", kNorm, {{step.tokens, "tokens"}, {4, "bytes"}}}};
  footprint.forward = {{{"residual stream", kNorm, stored}, {"output of a norm", kNorm, computed}}};
  footprint.backward = {{{"gradient of a norm's output", kGradientSource, computed},
                         {"gradient of a norm's input", kGradientSource, stored}}};
  if (step.cuda && step.casts()) {  // LibTorch's kernel answers in the type of its input
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

Footprint swiglu_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "SwiGLU keeps gate and up, and makes silu again (Shazeer 2020, arXiv 2002.05202)";
  const auto tensors = [&](const char* what, const char* source, int64_t count) -> Bytes {
    return {what, source, {{count, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}}};
  };
  const int64_t made = step.cuda && !step.own_kernels ? 4 : 3;  // of silu too
  return elementwise({{tensors("gate and up", kSource, 2)},
                      {{tensors("gate, up and their product", kSource, 3)}},
                      {{tensors("gradients of the gated product, gate and up", kGradientSource, made)}}});
}

Footprint activation_footprint(const StepSizes& step, int64_t width, bool gated) {
  constexpr const char* kSource = "an activation is made again from what it read; lib/ops/activation.cpp";
  const auto tensors = [&](const char* what, const char* source, int64_t count) -> Bytes {
    return {what, source, {{count, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}}};
  };
  if (!gated) {
    return elementwise({{tensors("what an activation reads", kSource, 1)},
                        {{tensors("before and after an activation", kSource, 2)}},
                        {{tensors("gradients before and after an activation", kGradientSource, 2)}}});
  }
  return elementwise({{tensors("gate and up", kSource, 2)},
                      {{tensors("gate, up and their product", kSource, 3)}},
                      {{tensors("gradients of the gated product, gate and up", kGradientSource, 4)}}});
}

Footprint dropout_footprint(const StepSizes& step, int64_t width) {
  constexpr const char* kSource = "dropout keeps what it left out (Srivastava et al. 2014)";
  const Product both = {{2, "of"}, {step.tokens, "tokens"}, {width, ""}, {step.compute_bytes, "bytes"}};
  return elementwise({{{"what dropout left out", kSource, {{step.tokens, "tokens"}, {width, "bytes"}}}},
                      {{{"before and after dropout", kSource, both}}},
                      {{{"gradients before and after dropout", kGradientSource, both}}}});
}

}  // namespace fathom::footprint
