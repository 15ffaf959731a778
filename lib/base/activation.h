// What a feed-forward part does to its width, and how experts may bound it.
#pragma once

namespace fathom {

// kGelu: by its approximation with tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415). kSquaredRelu: max(x, 0)^2 (So et
// al. 2021, arXiv 2109.08668).
enum class Activation { kSilu, kGelu, kRelu, kSquaredRelu, kSigmoid };

// The gate of gpt-oss: of g = min(gate, limit) and u = up, brought into [-limit, limit], it makes
// (u + 1) g sigmoid(slope g) (transformers' modeling_gpt_oss.py).
struct ClampedGate {
  double slope = 1.702, limit = 7;
  bool operator==(const ClampedGate&) const = default;
};

}  // namespace fathom
