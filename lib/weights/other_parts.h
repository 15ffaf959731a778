// What a folder holds of a model of text, pictures and sound beside its decoder of text.
#pragma once

#include <span>
#include <string_view>

namespace fathom::weights {

// What the modules of such parts are called: "vision_tower".
std::span<const std::string_view> other_parts();
// Whether a tensor, or a module, of this name is of one of them: "model.visual.blocks.0.attn.qkv.weight". "mtp.":
// layers that predict tokens beyond the next one, which transformers passes over.
bool is_of_other_part(std::string_view name);

}  // namespace fathom::weights
