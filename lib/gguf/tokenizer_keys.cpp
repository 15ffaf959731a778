// Puts a tokenizer's keys together: its lists, special tokens and templates.
#include "gguf/tokenizer_keys.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/log.h"
#include "chat/chat_template.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/companion.h"

namespace fathom::gguf {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";

// The special tokens that a tokenizer names, else those of config.json.
void add_special_tokens(weights::GgufKeys& keys, const tokenizer::Tokenizer& tokenizer,
                        const arch::Architecture& model) {
  const auto add = [&](const char* name, std::optional<int64_t> id, std::optional<int64_t> fallback = std::nullopt) {
    if (!id) id = fallback;
    if (id && *id >= 0) keys.emplace_back(std::string(kPrefix) + name, static_cast<uint32_t>(*id));
  };
  const bool ends = !model.eos_token_ids.empty();
  add("bos_token_id", tokenizer.bos_id, model.bos_token_id);
  add("eos_token_id", tokenizer.eos_id, ends ? std::optional(model.eos_token_ids.front()) : std::nullopt);
  add("unknown_token_id", tokenizer.unk_id);
  add("padding_token_id", tokenizer.pad_id, model.pad_token_id);
  keys.emplace_back(std::string(kPrefix) + "add_bos_token", tokenizer.adds_bos);
  keys.emplace_back(std::string(kPrefix) + "add_eos_token", tokenizer.adds_eos);
}

void add_templates(weights::GgufKeys& keys, const std::filesystem::path& folder) {
  std::vector<std::string> others;
  for (const auto& [name, text] : chat::template_texts(folder)) {
    if (name == "default") {
      keys.emplace_back("tokenizer.chat_template", text);
    } else {
      others.push_back(name);
      keys.emplace_back("tokenizer.chat_template." + name, text);
    }
  }
  if (!others.empty()) keys.emplace_back("tokenizer.chat_templates", std::move(others));
}

}  // namespace

TokenLists::TokenLists(int64_t vocabulary) {
  for (int64_t id = 0; id < vocabulary; ++id) texts.push_back("[PAD" + std::to_string(id) + "]");
  kinds.assign(static_cast<size_t>(vocabulary), static_cast<int32_t>(TokenKind::kUnused));
}

void TokenLists::set(int64_t id, std::string text, TokenKind kind, const std::string& where) {
  if (id < 0 || id >= std::ssize(texts)) {
    throw Error(where + ": token '" + text + "' has the id " + std::to_string(id) + ", but the embedding has " +
                    std::to_string(texts.size()) + " rows",
                "is this the tokenizer of the model?");
  }
  texts[static_cast<size_t>(id)] = std::move(text);
  kinds[static_cast<size_t>(id)] = static_cast<int32_t>(kind);
}

TokenKind kind_of_added(std::string_view text, bool special) {
  const auto within = [&](std::string_view begin, std::string_view end) {
    return text.starts_with(begin) && text.ends_with(end);
  };
  const bool looks_special = within("<|", "|>") || within("<｜", "｜>") || within("<unused", ">") || text == "<pad>" ||
                             text == "<mask>" || text == "<2mass>" || text == "[@BOS@]";
  return special || looks_special ? TokenKind::kControl : TokenKind::kUserDefined;
}

namespace {

enum class Kind { kByteLevel, kSentencePiece, kT5 };

// A tokenizer.json over characters is SentencePiece's BPE without its scores, by which llama.cpp merges: those are in
// the tokenizer.model beside it.
Kind kind_of(const std::filesystem::path& folder, tokenizer::Tokenizer::Source source) {
  using Source = tokenizer::Tokenizer::Source;
  if (source == Source::kSpieceModel) return Kind::kT5;
  if (source == Source::kTokenizerModel) return Kind::kSentencePiece;
  const std::filesystem::path file = folder / "tokenizer.json";
  const Json json = parse_json(read_file(file, weights::kLargestCompanion), file.string());
  const bool over_characters = tokenizer::is_character_bpe(json);
  if (!over_characters) return Kind::kByteLevel;
  if (std::filesystem::exists(folder / "tokenizer.model")) return Kind::kSentencePiece;
  throw Error(
      file.string() + ": llama.cpp merges such a tokenizer's characters by scores, which this file does not have",
      "put the tokenizer.model of the model that this one was made of beside it, or leave out --format gguf");
}

}  // namespace

void warn_of_flags(const tokenizer::AddedToken& token, const std::string& file) {
  if (!token.lstrip && !token.rstrip && !token.single_word) return;
  log_warning(file + ": llama.cpp finds '" + token.text +
              "' wherever it stands in a text, and takes no white space in beside it");
}

weights::GgufKeys tokenizer_keys(const std::filesystem::path& folder, const arch::Architecture& model,
                                 int64_t vocabulary) {
  using Source = tokenizer::Tokenizer::Source;
  const std::string model_key = std::string(kPrefix) + "model";
  const Source source = tokenizer::Tokenizer::source_in(folder);
  if (source == Source::kNone) return {{model_key, std::string("none")}};
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = tokenizer::Tokenizer::open(folder);
  const Kind kind = kind_of(folder, source);
  TokenLists lists(vocabulary);
  const weights::GgufKeys own = kind == Kind::kByteLevel ? byte_level_keys(folder, *tokenizer, lists)
                                : kind == Kind::kT5      ? spiece_keys(folder, *tokenizer, lists)
                                                         : sentencepiece_keys(folder, *tokenizer, lists);
  const char* name = kind == Kind::kByteLevel ? "gpt2" : kind == Kind::kT5 ? "t5" : "llama";
  weights::GgufKeys keys = {{model_key, std::string(name)}};
  keys.insert(keys.end(), own.begin(), own.end());
  keys.emplace_back(std::string(kPrefix) + "tokens", std::move(lists.texts));
  if (!lists.scores.empty()) keys.emplace_back(std::string(kPrefix) + "scores", std::move(lists.scores));
  keys.emplace_back(std::string(kPrefix) + "token_type", std::move(lists.kinds));
  if (!lists.merges.empty()) keys.emplace_back(std::string(kPrefix) + "merges", std::move(lists.merges));
  add_special_tokens(keys, *tokenizer, model);
  add_templates(keys, folder);
  return keys;
}

}  // namespace fathom::gguf
