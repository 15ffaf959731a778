// By the first part of a name, after transformers' names and those that folders have.
#include "weights/other_parts.h"

#include <algorithm>
#include <array>

namespace fathom::weights {
namespace {

constexpr std::array<std::string_view, 11> kParts{
    "visual",      "vision_tower", "vision_model", "vision_adapter",  "vision_projection",
    "audio_tower", "embed_audio",  "embed_vision", "vision_embedder", "multi_modal_projector",
    "mtp"};

}  // namespace

std::span<const std::string_view> other_parts() { return kParts; }

bool is_of_other_part(std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  return std::find(kParts.begin(), kParts.end(), name.substr(0, name.find('.'))) != kParts.end();
}

}  // namespace fathom::weights
