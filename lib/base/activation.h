// What a feed-forward part does to its width.
#pragma once

namespace fathom {

// kGelu: by its approximation with tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415).
enum class Activation { kSilu, kGelu, kRelu };

}  // namespace fathom
