// "Did you mean": the known word that a mistyped one is nearest to.
#pragma once

#include <string_view>
#include <vector>

namespace fathom {

// The candidate into which fewest changed, added and removed letters turn the word, of several the first; empty where
// that takes more than a third of the word's letters and more than two. Capitals and - for _ count for nothing; a word
// of more than 64 bytes is near to none.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace fathom
