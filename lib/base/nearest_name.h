// What someone who mistyped a name may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// A name without what people leave out or write otherwise: case, and separators but for those between two numbers, as
// "4090", "rtx 4090" and "RTX-4090" are told apart by their letters, "qwen2-57b" and "qwen2.5-7b" by their numbers:
// "Llama3.1-8B" and "llama-3.1-8b" are "llama 3.1 8 b".
std::string plain_name(std::string_view name);

// Of the candidates the one that `name` was most likely meant to be: the same but for letter case and separators, else
// the shortest that ends with it ("4090": "RTX-4090"), else the first within a third of its letters, at least two, of
// changed, missing or added ones, and no more than half of them. Empty for none, and for names of more than 64 bytes.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "did you mean RTX-4090?", or empty. Where the nearest is no more than near, up to three candidates that begin with
// the name are told instead: "did you mean A100-40GB or A100-80GB?".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace fathom
