// What a feed-forward part does to its width.
#pragma once

namespace fathom {

// kGelu: by its approximation with tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415). kSquaredRelu: max(x, 0)^2 (So et
// al. 2021, arXiv 2109.08668).
enum class Activation { kSilu, kGelu, kRelu, kSquaredRelu, kSigmoid };

}  // namespace fathom
