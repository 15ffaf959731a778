// Viterbi's search from character to character, as SentencePiece and Hugging Face's tokenizers do it, sum by sum.
#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kLongestToken = 1024;               // bytes
constexpr size_t kLongestStretch = size_t{1} << 24;  // bytes, each of which takes up to 64 of memory
constexpr size_t kKeptNodes = size_t{1} << 14;       // a workspace that grew beyond gives its memory back
constexpr double kUnknownPenalty = 10;               // below the lowest score

UnigramVocabulary checked(UnigramVocabulary vocabulary, const std::string& where) {
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    const std::string token = where + "[" + std::to_string(id) + "]";
    if (piece.empty()) throw Error(token + ": expected the text of a token");
    if (piece.size() > kLongestToken) throw Error(token + ": is longer than 1024 bytes");
    if (well_formed_prefix(piece) < piece.size()) throw Error(token + ": is not UTF-8");
    if (!std::isfinite(vocabulary.scores[id])) throw Error(token + ": expected a score that is a number");
  }
  if (vocabulary.unknown_id < 0 || static_cast<size_t>(vocabulary.unknown_id) >= vocabulary.pieces.size()) {
    throw Error(where + ": the unknown token " + std::to_string(vocabulary.unknown_id) + " is not among its " +
                std::to_string(vocabulary.pieces.size()) + " tokens");
  }
  return vocabulary;
}

// The tokens of a text up to a border at which every segmentation has one that begins.
class Decided {
 public:
  Decided(std::string_view text, int32_t unknown_id, const PieceTrie& trie, std::vector<int32_t>& ids,
          std::vector<int64_t>* begins)
      : text_(text), unknown_id_(unknown_id), trie_(trie), ids_(ids), begins_(begins) {}

  size_t border() const { return border_; }
  // All segmentations meet where the path ends, so what comes before is decided. path[i]: the best segmentation that
  // ends at border + i; it begins anew. tokens: of the path, the last one first; what was there is lost.
  void push_path(std::vector<UnigramWorkspace::Node>& path, std::vector<UnigramWorkspace::Node>& tokens) {
    tokens.clear();
    for (size_t end = path.size() - 1; end > 0; end = path[end].begin) tokens.push_back(path[end]);
    for (size_t i = tokens.size(); i-- > 0;) {
      const size_t begin = border_ + tokens[i].begin;
      if (tokens[i].id == unknown_id_) {
        if (unknown_begin_ == unknown_end_) unknown_begin_ = begin;
        unknown_end_ = border_ + (i == 0 ? path.size() - 1 : tokens[i - 1].begin);
      } else {
        push_unknown();
        push(begin, tokens[i].id);
      }
    }
    border_ += path.size() - 1;
    path.assign(1, {.score = path.back().score});
  }
  // Unknown characters side by side, if some came last.
  void push_unknown() {
    if (unknown_begin_ == unknown_end_) return;
    const std::string_view unknown = text_.substr(unknown_begin_, unknown_end_ - unknown_begin_);
    push(unknown_begin_, trie_.find(unknown).value_or(unknown_id_));
    unknown_begin_ = unknown_end_;
  }

 private:
  void push(size_t begin, int32_t id) {
    ids_.push_back(id);
    if (begins_ != nullptr) begins_->push_back(static_cast<int64_t>(begin));
  }

  std::string_view text_;
  int32_t unknown_id_;
  const PieceTrie& trie_;
  std::vector<int32_t>& ids_;
  std::vector<int64_t>* begins_;
  size_t border_ = 0;
  size_t unknown_begin_ = 0, unknown_end_ = 0;
};

}  // namespace

Unigram::Unigram(UnigramVocabulary vocabulary, const std::string& where)
    : vocabulary_(checked(std::move(vocabulary), where)),
      trie_(vocabulary_.pieces, where),
      unknown_score_(*std::min_element(vocabulary_.scores.begin(), vocabulary_.scores.end()) - kUnknownPenalty) {}

void Unigram::encode(std::string_view text, UnigramWorkspace& workspace, std::vector<int32_t>& ids,
                     std::vector<int64_t>* begins) const {
  auto& path = workspace.path;
  Decided decided(text, vocabulary_.unknown_id, trie_, ids, begins);

  path.assign(1, {});
  for (size_t at = 0; at < text.size();) {
    if (at == decided.border() + path.size() - 1) decided.push_path(path, workspace.tokens);
    const auto begin = static_cast<uint32_t>(at - decided.border());
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
  decided.push_path(path, workspace.tokens);
  decided.push_unknown();
  if (path.capacity() > kKeptNodes || workspace.tokens.capacity() > kKeptNodes) workspace = {};
}

}  // namespace fathom::tokenizer
