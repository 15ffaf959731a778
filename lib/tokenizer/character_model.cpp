// Byte-pair encoding over characters, as tokenizer.json holds what SentencePiece trained: Llama 2's, Gemma's and their
// like, whose rare characters fall back to bytes.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/bpe_words.h"
#include "tokenizer/json_part.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_model.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

bool has_metaspace(const Json& pre_tokenizer) {
  const Json* type = find_key(pre_tokenizer, "type");
  if (type != nullptr && (*type == "Metaspace" || *type == "WhitespaceSplit")) return true;
  const Json* parts = find_key(pre_tokenizer, "pretokenizers");
  return parts != nullptr && parts->is_array() && std::any_of(parts->begin(), parts->end(), has_metaspace);
}

class CharacterModel : public TextModel {
 public:
  CharacterModel(const Json& json, const std::string& file);

  void encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
              std::vector<int64_t>* begins) const override;

  int64_t size() const override { return vocabulary().size(); }
  bool contains(int64_t id) const override { return vocabulary().contains(id); }
  std::optional<int32_t> find_spelling(std::string_view spelling) const override { return vocabulary().find(spelling); }
  std::string spelling(int32_t id) const override { return std::string(vocabulary().bytes(id)); }
  std::string bytes(int32_t id) const override { return decoder_.bytes(vocabulary().bytes(id), false); }
  std::string first_bytes(int32_t id) const override { return decoder_.bytes(vocabulary().bytes(id), true); }
  std::string added_bytes(const std::string& token, bool first) const override { return decoder_.bytes(token, first); }

 private:
  const Vocabulary& vocabulary() const { return bpe_.vocabulary(); }
  void find_joined();
  void cut(std::string_view text, const std::vector<Piece>& pieces, std::vector<Piece>& words) const;

  Bpe bpe_;
  TokenDecoder decoder_;
  std::optional<MarkedWords> words_;
  std::optional<PreTokenizer> splits_;
  bool may_cut_ = false;
  std::unordered_set<char32_t> joined_;  // characters that stand before a mark in some token
};

CharacterModel::CharacterModel(const Json& json, const std::string& file)
    : bpe_(json.at("model"), file, Vocabulary::Spelling::kCharacters), decoder_(json, file) {
  if (const Json* pre_tokenizer = find_key(json, "pre_tokenizer")) {
    if (has_metaspace(*pre_tokenizer)) {
      words_.emplace(*pre_tokenizer, file);
    } else {
      splits_.emplace(*pre_tokenizer, file, PreTokenizer::Ends::kInText);
    }
  }
  if (read_flag(json.at("model"), "byte_fallback", false, file + ": model") && !decoder_.falls_back()) {
    throw Error(file + ": decoder: has no ByteFallback, which the model's byte_fallback needs");
  }
  find_joined();
}

// No merge, and so no token, reaches across a character and a mark that are neighbours in no token: there a text can be
// cut into words, whose tokens a cache holds.
void CharacterModel::find_joined() {
  may_cut_ = !bpe_.ignores_merges() && bpe_.merges_characters_alone() && vocabulary().find(kBlankMark).has_value();
  for (int32_t id = 0; may_cut_ && id < size(); ++id) {
    if (!contains(id)) continue;
    const std::string_view token = vocabulary().bytes(id);
    for (size_t at = 0; (at = token.find(kBlankMark, at)) != std::string_view::npos; at += kBlankMark.size()) {
      if (at > 0) joined_.insert(character_at(token.data() + previous_character(token, at)).code);
    }
  }
}

void CharacterModel::cut(std::string_view text, const std::vector<Piece>& pieces, std::vector<Piece>& words) const {
  words.clear();
  for (const Piece& piece : pieces) {
    size_t begin = piece.begin;
    for (size_t at = begin; may_cut_ && (at = text.find(kBlankMark, at)) < piece.end; at += kBlankMark.size()) {
      if (at == begin || joined_.contains(character_at(text.data() + previous_character(text, at)).code)) continue;
      words.push_back({begin, at});
      begin = at;
    }
    words.push_back({begin, piece.end});
  }
}

void CharacterModel::encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
                            std::vector<int64_t>* begins) const {
  std::string marked;
  OffsetMap origins;
  auto& pieces = workspace.pieces;
  if (words_) {
    words_->split(text, at_start, marked, pieces, begins == nullptr ? nullptr : &origins);
    text = marked;
  } else if (splits_) {
    splits_->split(text, pieces, workspace.scratch, workspace.budget);
  } else {
    pieces.assign(1, {0, text.size()});
  }
  cut(text, pieces, workspace.scratch);
  const size_t before = begins == nullptr ? 0 : begins->size();
  encode_words(bpe_, text, workspace.scratch, workspace, ids, begins);
  if (begins == nullptr) return;
  for (size_t i = before; i < begins->size(); ++i) {
    (*begins)[i] = static_cast<int64_t>(origins.origin(static_cast<size_t>((*begins)[i])));
  }
}

}  // namespace

std::unique_ptr<TextModel> read_character_model(const Json& json, const std::string& file) {
  return std::make_unique<CharacterModel>(json, file);
}

}  // namespace fathom::tokenizer
