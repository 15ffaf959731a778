// Unigram: the segmentation of a text whose tokens' scores add up to the most (Kudo 2018, arXiv:1804.10959).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/piece_trie.h"

namespace fathom::tokenizer {

// What one thread encodes with; kept from text to text.
struct UnigramWorkspace {
  struct Node {
    double score = 0;
    uint32_t begin = UINT32_MAX;  // of the last token of the best segmentation that ends here; at first there is none
    int32_t id = 0;
  };
  std::vector<Node> path;
  std::vector<Node> tokens;
};

struct UnigramVocabulary {
  std::vector<std::string> pieces;  // by id
  std::vector<double> scores;
  int32_t unknown_id = 0;
};

class Unigram {
 public:
  // where: what errors call the vocabulary. Throws Error for pieces that are empty, no UTF-8 or too long, for scores
  // that are no numbers, and for an unknown_id that is none.
  Unigram(UnigramVocabulary vocabulary, const std::string& where);

  // Appends the tokens of a text, which is well-formed, and where in it they begin, if begins is set. Of segmentations
  // with the same score, and of unknown characters side by side, which are one token, as Hugging Face's tokenizers.
  // Time is bounded by the text's length times that of the longest piece, memory by the longest stretch without a place
  // that no piece reaches across; throws Error where that is above 16 MiB.
  void encode(std::string_view text, UnigramWorkspace& workspace, std::vector<int32_t>& ids,
              std::vector<int64_t>* begins) const;

  int64_t size() const { return static_cast<int64_t>(vocabulary_.pieces.size()); }
  const std::string& piece(int32_t id) const { return vocabulary_.pieces[id]; }
  std::optional<int32_t> find(std::string_view piece) const { return trie_.find(piece); }

 private:
  UnigramVocabulary vocabulary_;
  PieceTrie trie_;
  double unknown_score_ = 0;  // of a character that is no piece
};

}  // namespace fathom::tokenizer
