// Older folders call the width of feed-forward parts block_ff_dim, and list the layers that attend.
#include "arch/read_lfm2.h"

#include <algorithm>
#include <vector>

#include "base/json_value.h"
#include "base/rounding.h"

namespace fathom::arch {
namespace {

constexpr const char* kAttending = "full_attn_idxs";

// Two thirds of what the key says, times a factor, up to a multiple: unless it is to be taken as it is.
int64_t read_width(const ConfigJson& config) {
  const int64_t said = config.size(config.find("block_ff_dim") != nullptr ? "block_ff_dim" : "intermediate_size");
  const bool as_it_is = config.find("block_auto_adjust_ff_dim") != nullptr && !config.flag("block_auto_adjust_ff_dim");
  if (as_it_is) return said;
  const double factor = config.number("block_ffn_dim_multiplier", 1, 0);
  const auto two_thirds = static_cast<double>(static_cast<int64_t>(2 * static_cast<double>(said) / 3));
  const double width = factor * two_thirds;
  if (width < 1 || width > ConfigJson::kMaxSize) config.refuse("block_ffn_dim_multiplier", "is out of range");
  return round_up(static_cast<int64_t>(width), config.size("block_multiple_of", 256));
}

std::vector<bool> read_which_convolve(const ConfigJson& config, size_t layers) {
  if (const auto types = config.layers_of_type("conv", layers)) return *types;
  const Json* attending = config.find(kAttending);
  if (attending == nullptr) return std::vector<bool>(layers, false);
  if (!attending->is_array()) config.refuse(kAttending, "expected a list");
  std::vector<bool> convolve(layers, true);
  for (const Json& number : *attending) {
    const int64_t layer = config.as_integer(kAttending, number);
    if (layer >= 0 && layer < std::ssize(convolve)) convolve[static_cast<size_t>(layer)] = false;
  }
  return convolve;
}

}  // namespace

Json lfm2_in_llamas_words(const ConfigJson& config, const Json& json) {
  Json words = json;
  words["intermediate_size"] = read_width(config);
  words["rms_norm_eps"] = config.number("norm_eps", 1e-5, 0);
  if (const Json* tied = config.find("tie_embedding")) words[kTied] = *tied;
  words.erase(kLayerTypes);
  return words;
}

void read_convolutions(const ConfigJson& config, Architecture& architecture) {
  if (config.flag("conv_bias")) config.refuse("conv_bias", "only false is supported");
  const ShortConvolution convolution{.taps = config.size("conv_L_cache", 3)};
  const std::vector<bool> convolve = read_which_convolve(config, architecture.layers.size());
  if (std::find(convolve.begin(), convolve.end(), false) == convolve.end()) {
    config.refuse(config.find(kLayerTypes) != nullptr ? kLayerTypes : kAttending, "expected a layer that attends");
  }
  for (size_t layer = 0; layer < convolve.size(); ++layer) {
    if (convolve[layer]) architecture.layers[layer].mixer = convolution;
  }
}

}  // namespace fathom::arch
