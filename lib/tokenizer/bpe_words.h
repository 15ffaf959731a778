// Byte-pair encoding of many pieces, of which those that were seen lately are known already.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/text_model.h"

namespace fathom::tokenizer {

// Appends the tokens of text's pieces, one after the other, and where in `text` they begin, if begins is set.
inline void encode_words(const Bpe& bpe, std::string_view text, const std::vector<Piece>& pieces, Workspace& workspace,
                         std::vector<int32_t>& ids, std::vector<int64_t>* begins) {
  size_t next = ids.size();
  const auto encode = [&](std::string_view piece) { bpe.encode(piece, workspace.bpe, ids); };
  if (begins == nullptr) return encode_pieces(text, pieces, workspace.cache, ids, encode);
  std::vector<int32_t> again;
  for (const Piece& piece : pieces) {
    encode_piece(text, piece, workspace.cache, ids, encode);
    const size_t known = begins->size();
    // The bytes of a piece's tokens, end to end, are the piece, unless one is unknown or a byte was dropped.
    size_t at = piece.begin;
    bool plain = true;
    for (; plain && next < ids.size(); ++next) {
      begins->push_back(static_cast<int64_t>(at));
      const std::optional<size_t> length = bpe.length(ids[next]);
      plain = length.has_value();
      at += length.value_or(0);
    }
    next = ids.size();
    if (plain && at == piece.end) continue;
    begins->resize(known);
    again.clear();
    bpe.encode(text.substr(piece.begin, piece.end - piece.begin), workspace.bpe, again, begins);
    for (size_t i = known; i < begins->size(); ++i) (*begins)[i] += static_cast<int64_t>(piece.begin);
  }
}

}  // namespace fathom::tokenizer
