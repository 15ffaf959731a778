// Reads tokenizer.json for its tokens, merges and patterns, which llama.cpp knows by a name.
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "gguf/tokenizer_keys.h"
#include "tokenizer/json_part.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "weights/companion.h"

namespace fathom::gguf {
namespace {

using tokenizer::find_key;
using tokenizer::KnownPattern;

constexpr const char* kDigit = R"(\p{N})";
// Mistral Nemo's.
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Known {
  std::vector<std::string_view> patterns;
  bool whole_words;  // ignore_merges
  const char* name;
};

// After llama-vocab.cpp, which sets whole_words by the name, too.
const std::vector<Known>& known_pre_tokenizers() {
  static const std::vector<Known> table = {
      {{text_of(KnownPattern::kGpt2)}, false, "gpt-2"},      {{kDigit, text_of(KnownPattern::kGpt2)}, false, "smollm"},
      {{text_of(KnownPattern::kLlama3)}, true, "llama-bpe"}, {{text_of(KnownPattern::kLlama3)}, false, "dbrx"},
      {{text_of(KnownPattern::kQwen2)}, false, "qwen2"},     {{kTekken}, true, "tekken"},
  };
  return table;
}

// What llama.cpp does with no text: NFC changes none that is composed already, as nearly all are.
void check_normalizer(const Json& json, const std::string& file) {
  const Json* normalizer = find_key(json, "normalizer");
  if (normalizer == nullptr) return;
  const std::string type = tokenizer::type_of(*normalizer, file + ": normalizer");
  if (type == "NFC") return;
  throw Error(file + ": normalizer: llama.cpp's byte-level tokenizer has no '" + type.substr(0, 80) + "'",
              "export a folder for transformers: leave out --format gguf");
}

std::vector<std::string> read_merges(const Json& model, const std::string& where) {
  std::vector<std::string> merges;
  const Json& list = tokenizer::list_of(model, "merges", where);
  merges.reserve(list.size());
  for (const Json& merge : list) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    merges.push_back(is_pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                             : merge.get<std::string>());
    if (merges.back().find(' ') == merges.back().rfind(' ')) continue;
    throw Error(where + ".merges: '" + merges.back().substr(0, 80) + "' has a blank within a token",
                "GGUF files keep a blank between the two, and nowhere else");
  }
  return merges;
}

void add_tokens(const Json& json, const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                const std::string& file, TokenLists& lists) {
  for (const auto& [text, id] : json.at("model").at("vocab").items()) {
    lists.set(id.get<int64_t>(), text, TokenKind::kNormal, file);
  }
  const auto add = [&](int64_t id, std::string text, bool special) {
    const TokenKind kind = kind_of_added(text, special);
    lists.set(id, std::move(text), kind, file);
  };
  const auto add_token = [&](const tokenizer::AddedToken& token) {
    add(token.id, token.text, token.special);
    warn_of_flags(token, file);
  };
  for (const tokenizer::AddedToken& token : tokenizer::read_added_tokens(json, file)) add_token(token);
  const tokenizer::TokenizerFiles files = tokenizer::read_tokenizer_files(folder);
  for (const auto& [id, token] : files.added) add_token(token);
  for (const auto& id : {tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id}) {
    if (id) add(*id, tokenizer.piece(*id), true);
  }
}

}  // namespace

std::string pre_tokenizer_name(const Json& tokenizer_json, const std::string& file) {
  const tokenizer::PreTokenizer pre_tokenizer(tokenizer_json.value("pre_tokenizer", Json()), file);
  const bool whole_words = tokenizer::read_flag(tokenizer_json.at("model"), "ignore_merges", false, file + ": model");
  const auto patterns = pre_tokenizer.patterns();
  if (patterns && !pre_tokenizer.adds_prefix_space()) {
    for (const Known& known : known_pre_tokenizers()) {
      const bool same = std::equal(patterns->begin(), patterns->end(), known.patterns.begin(), known.patterns.end());
      if (same && known.whole_words == whole_words) return known.name;
    }
  }
  throw Error(
      file + ": pre_tokenizer: llama.cpp has no name for these splits" + (whole_words ? " with ignore_merges" : ""),
      "those that it has one for are GPT-2's, SmolLM's, Llama 3's, Qwen2's and Mistral Nemo's; export a folder "
      "for transformers: leave out --format gguf");
}

weights::GgufKeys byte_level_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                                  TokenLists& lists) {
  const std::string file = (folder / "tokenizer.json").string();
  const Json json = parse_json(read_file(file, weights::kLargestCompanion), file);
  const Json* type = find_key(json.at("model"), "type");
  if (type != nullptr && *type != "BPE") {
    throw Error(file + ": model.type: " + type->dump().substr(0, 80) + " cannot be written as GGUF",
                "the one that can: BPE");
  }
  check_normalizer(json, file);
  std::string name = pre_tokenizer_name(json, file);
  add_tokens(json, folder, tokenizer, file, lists);
  lists.merges = read_merges(json.at("model"), file + ": model");
  return {{"tokenizer.ggml.pre", std::move(name)}};
}

}  // namespace fathom::gguf
