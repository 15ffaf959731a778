// Viterbi's search from character to character, as SentencePiece and Hugging Face's tokenizers do it, sum by sum.
#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kLongestPiece = 1024;               // bytes
constexpr size_t kLongestStretch = size_t{1} << 24;  // bytes, each of which takes up to 64 of memory
constexpr size_t kKeptNodes = size_t{1} << 14;       // a workspace that grew beyond gives its memory back
constexpr double kUnknownPenalty = 10;               // below the lowest score

UnigramVocabulary checked(UnigramVocabulary vocabulary, const std::string& where) {
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    const std::string token = where + "[" + std::to_string(id) + "]";
    if (piece.empty()) throw Error(token + ": expected the text of a token");
    if (piece.size() > kLongestPiece) throw Error(token + ": is longer than 1024 bytes");
    if (well_formed_prefix(piece) < piece.size()) throw Error(token + ": is not UTF-8");
    if (!std::isfinite(vocabulary.scores[id])) throw Error(token + ": expected a score that is a number");
  }
  if (vocabulary.unknown_id < 0 || static_cast<size_t>(vocabulary.unknown_id) >= vocabulary.pieces.size()) {
    throw Error(where + ": the unknown token " + std::to_string(vocabulary.unknown_id) + " is not among its " +
                std::to_string(vocabulary.pieces.size()) + " tokens");
  }
  return vocabulary;
}

}  // namespace

Unigram::Unigram(UnigramVocabulary vocabulary, const std::string& where)
    : vocabulary_(checked(std::move(vocabulary), where)),
      trie_(vocabulary_.pieces, where),
      unknown_score_(*std::min_element(vocabulary_.scores.begin(), vocabulary_.scores.end()) - kUnknownPenalty) {}

void Unigram::encode(std::string_view text, UnigramWorkspace& workspace, std::vector<int32_t>& ids,
                     std::vector<int64_t>* begins) const {
  auto& path = workspace.path;      // path[i]: the best segmentation that ends at border + i
  auto& tokens = workspace.tokens;  // of a stretch, the last one first
  size_t border = 0;                // a token begins here in every segmentation
  size_t unknown_begin = 0, unknown_end = 0;

  const auto push = [&](size_t begin, int32_t id) {
    ids.push_back(id);
    if (begins != nullptr) begins->push_back(static_cast<int64_t>(begin));
  };
  const auto push_unknown = [&] {
    if (unknown_begin == unknown_end) return;
    push(unknown_begin,
         trie_.find(text.substr(unknown_begin, unknown_end - unknown_begin)).value_or(vocabulary_.unknown_id));
    unknown_begin = unknown_end;
  };
  // All segmentations meet where the path ends, so what comes before is decided.
  const auto push_path = [&] {
    tokens.clear();
    for (size_t end = path.size() - 1; end > 0; end = path[end].begin) tokens.push_back(path[end]);
    for (size_t i = tokens.size(); i-- > 0;) {
      const size_t begin = border + tokens[i].begin;
      if (tokens[i].id == vocabulary_.unknown_id) {
        if (unknown_begin == unknown_end) unknown_begin = begin;
        unknown_end = border + (i == 0 ? path.size() - 1 : tokens[i - 1].begin);
      } else {
        push_unknown();
        push(begin, tokens[i].id);
      }
    }
    border += path.size() - 1;
    path.assign(1, {.score = path.back().score});
  };

  path.assign(1, {});
  for (size_t at = 0; at < text.size();) {
    if (at == border + path.size() - 1) push_path();
    const auto begin = static_cast<uint32_t>(at - border);
    const double score_here = path[begin].score;
    const auto offer = [&](size_t bytes, double score, int32_t id) {
      const size_t end = begin + bytes;
      if (end >= path.size()) path.resize(end + 1);
      const double whole = score + score_here;
      if (path[end].begin == UINT32_MAX || whole > path[end].score) path[end] = {whole, begin, id};
    };
    const size_t character = character_at(text.data() + at).bytes;
    bool known = false;
    trie_.for_each_prefix(text.substr(at), [&](size_t bytes, int32_t id) {
      offer(bytes, vocabulary_.scores[id], id);
      known |= bytes == character;
    });
    if (!known) offer(character, unknown_score_, vocabulary_.unknown_id);
    if (path.size() > kLongestStretch) {
      throw Error("a stretch of more than " + std::to_string(kLongestStretch) +
                      " bytes without a border is too long to tokenize",
                  "write it in several lines");
    }
    at += character;
  }
  push_path();
  push_unknown();
  if (path.capacity() > kKeptNodes || tokens.capacity() > kKeptNodes) workspace = {};
}

}  // namespace fathom::tokenizer
