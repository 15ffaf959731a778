// One set of all pairs.
#include "tokenizer/character_pairs.h"

#include "tokenizer/utf8.h"

namespace fathom::tokenizer {

void CharacterPairs::add(std::string_view piece) {
  piece = piece.substr(0, well_formed_prefix(piece));
  for (size_t at = 0; at < piece.size();) {
    const Character left = character_at(piece.data() + at);
    at += left.bytes;
    if (at < piece.size()) pairs_.insert(pair(left.code, character_at(piece.data() + at).code));
  }
}

}  // namespace fathom::tokenizer
