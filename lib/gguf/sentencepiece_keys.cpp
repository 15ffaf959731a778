// Reads tokenizer.model for its pieces, scores and kinds; tokens that other files add, or call special, come over them.
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/log.h"
#include "gguf/tokenizer_keys.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "weights/companion.h"

namespace fathom::gguf {
namespace {

using tokenizer::SentencePieceModel;

// llama.cpp's converter's.
constexpr float kUnusedScore = -10000, kAddedScore = -1000;

// llama.cpp looks for such tokens in the text before blanks become marks.
std::string with_blanks(std::string text) {
  for (size_t at = 0; (at = text.find(tokenizer::kBlankMark, at)) != std::string::npos; ++at) {
    text.replace(at, tokenizer::kBlankMark.size(), " ");
  }
  return text;
}

void check(const SentencePieceModel& model, const std::string& file) {
  constexpr const char* kRemedy = "export a folder for transformers: leave out --format gguf";
  if (model.algorithm != SentencePieceModel::kBpe) {
    throw Error(file + ": trainer_spec.model_type: " + std::to_string(model.algorithm) +
                    " is not what llama.cpp's tokenizer for such models does, which is 2, BPE",
                kRemedy);
  }
  if (!model.characters.empty()) {
    throw Error(file + ": normalizer_spec: llama.cpp does not rewrite characters as this model does", kRemedy);
  }
  if (model.joins_blanks) {
    log_warning(file + ": llama.cpp keeps all of several blanks side by side, of which this tokenizer keeps one");
  }
}

void add_pieces(const SentencePieceModel& model, const std::string& file, TokenLists& lists) {
  lists.scores.assign(lists.texts.size(), kUnusedScore);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto kind = static_cast<TokenKind>(model.types[id]);
    const bool is_text = kind == TokenKind::kUserDefined;
    lists.set(static_cast<int64_t>(id), is_text ? with_blanks(model.pieces[id]) : model.pieces[id], kind, file);
    lists.scores[id] = model.scores[id];
  }
}

// A tokenizer.json that is read, and the tokenizer.model beside it, whose scores are written.
void check_same(const SentencePieceModel& model, const tokenizer::Tokenizer& tokenizer, const std::string& file) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const std::string piece = tokenizer.piece(static_cast<int32_t>(id));
    if (piece == model.pieces[id]) continue;
    throw Error(file + ": piece " + std::to_string(id) + " is '" + model.pieces[id] + "', but tokenizer.json has '" +
                    piece + "'",
                "take both files from the same model");
  }
}

}  // namespace

weights::GgufKeys sentencepiece_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                                     TokenLists& lists) {
  const std::string file = (folder / "tokenizer.model").string();
  const SentencePieceModel model = tokenizer::read_sentencepiece_model(file);
  check(model, file);
  add_pieces(model, file, lists);
  const auto add = [&](const tokenizer::AddedToken& token) {
    warn_of_flags(token, file);
    const TokenKind kind = kind_of_added(token.text, token.special);
    lists.set(token.id, kind == TokenKind::kControl ? token.text : with_blanks(token.text), kind, file);
    lists.scores[static_cast<size_t>(token.id)] = kAddedScore;
  };
  if (tokenizer::Tokenizer::source_in(folder) == tokenizer::Tokenizer::Source::kTokenizerJson) {
    check_same(model, tokenizer, file);
    const std::string json = (folder / "tokenizer.json").string();
    for (const tokenizer::AddedToken& token :
         tokenizer::read_added_tokens(parse_json(read_file(json, weights::kLargestCompanion), json), json)) {
      add(token);
    }
  }
  for (const auto& [id, token] : tokenizer::read_tokenizer_files(folder).added) add(token);
  const std::vector<int32_t> letter = tokenizer.encode("a");
  const bool prefixes = !letter.empty() && tokenizer.piece(letter.front()).starts_with(tokenizer::kBlankMark);
  return {{"tokenizer.ggml.pre", std::string("default")}, {"tokenizer.ggml.add_space_prefix", prefixes}};
}

weights::GgufKeys spiece_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                              TokenLists& lists) {
  const std::string file = (folder / "spiece.model").string();
  const SentencePieceModel model = tokenizer::read_sentencepiece_model(file);
  add_pieces(model, file, lists);
  for (auto id = std::ssize(model.pieces); id < tokenizer.vocabulary_size(); ++id) {  // T5's sentinels
    lists.set(id, tokenizer.piece(static_cast<int32_t>(id)), TokenKind::kControl, file);
    lists.scores[static_cast<size_t>(id)] = kAddedScore;
  }
  weights::GgufKeys keys = {{"tokenizer.ggml.pre", std::string("default")},
                            {"tokenizer.ggml.add_space_prefix", model.adds_prefix},
                            {"tokenizer.ggml.remove_extra_whitespaces", model.joins_blanks}};
  if (!model.characters.empty()) {
    keys.emplace_back("tokenizer.ggml.precompiled_charsmap",
                      std::vector<uint8_t>(model.characters.begin(), model.characters.end()));
  }
  return keys;
}

}  // namespace fathom::gguf
