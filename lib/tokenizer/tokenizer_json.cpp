// Byte-level BPE between added tokens, with a workspace per thread that encodes.
#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_json_parts.h"
#include "tokenizer/utf8.h"
#include "weights/companion.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMaxAddedTokenBytes = 1024;
constexpr size_t kKeptPieces = size_t{1} << 16;  // a workspace that grew beyond gives its memory back

struct Workspace {
  BpeWorkspace bpe;
  std::vector<Piece> pieces, scratch;
  MatchBudget budget{0};  // of the text that is encoded
};

// As many workspaces as threads have encoded at the same time.
class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    if (workspace->pieces.capacity() > kKeptPieces) workspace->pieces = {};
    if (workspace->scratch.capacity() > kKeptPieces) workspace->scratch = {};
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

Json read_tokenizer_json(const std::filesystem::path& path) {
  const std::string text = read_file(path, weights::kLargestCompanion);
  refuse_other_kind(path, text, "JSON");
  Json json = parse_json(text, path.string());
  if (!json.is_object() || !json.contains("model")) throw Error(path.string() + ": expected an object with a model");
  return json;
}

class TokenizerJson : public Tokenizer {
 public:
  explicit TokenizerJson(const std::filesystem::path& folder)
      : TokenizerJson(folder, (folder / "tokenizer.json").string(), read_tokenizer_json(folder / "tokenizer.json")) {}

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    encode_into(text, ids, nullptr);
    return ids;
  }
  Encoding encode_with_offsets(std::string_view text) const override {
    Encoding encoding;
    encode_into(text, encoding.ids, &encoding.begins);
    return encoding;
  }
  std::string token_bytes(int32_t id) const override {
    if (!has_token(id)) return "";  // models have rows in their embeddings that no token uses
    if (special_.count(id)) return "";
    const auto added = added_.find(id);
    return added != added_.end() ? added->second.text : std::string(bpe_.vocabulary().bytes(id));
  }
  std::string piece(int32_t id) const override {
    if (!has_token(id)) return "<no token " + std::to_string(id) + ">";
    const auto added = added_.find(id);
    return added != added_.end() ? added->second.text : bpe_.vocabulary().spelling(id);
  }
  int64_t vocabulary_size() const override { return vocabulary_size_; }

 private:
  using Begins = std::vector<int64_t>;

  TokenizerJson(const std::filesystem::path& folder, std::string file, const Json& json);
  void add_token(const AddedToken& token);
  std::optional<int32_t> resolve(const std::optional<std::string>& text, const char* key);
  void read_special_tokens(const TokenizerFiles& files, const Json& json);
  void decide_affixes(const TokenizerFiles& files, const Affixes& affixes);
  void build_finders();
  bool has_token(int32_t id) const { return bpe_.vocabulary().contains(id) || added_.count(id) > 0; }

  void encode_into(std::string_view given, std::vector<int32_t>& ids, Begins* begins) const;
  template <typename Origin>
  void encode_between(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids, Begins* begins,
                      const Origin& origin) const;
  template <typename Origin>
  void encode_text(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids, Begins* begins,
                   const Origin& origin) const;

  std::string file_;
  ByteLevelBpe bpe_;
  PreTokenizer pre_tokenizer_;
  bool composes_;
  std::map<int32_t, AddedToken> added_;
  std::map<std::string, int32_t, std::less<>> added_ids_;  // by text
  std::set<int32_t> special_;
  AddedTokenFinder in_given_;       // tokens looked for in the text as it is
  AddedTokenFinder in_normalized_;  // and in the normalized one
  int64_t vocabulary_size_ = 0;
  mutable Workspaces workspaces_;
};

TokenizerJson::TokenizerJson(const std::filesystem::path& folder, std::string file, const Json& json)
    : file_(std::move(file)),
      bpe_(json.at("model"), file_),
      pre_tokenizer_(json.value("pre_tokenizer", Json()), file_),
      composes_(reads_composed(json, file_)),
      vocabulary_size_(bpe_.vocabulary().size()) {
  check_decoder(json, file_);
  const TokenizerFiles files = read_tokenizer_files(folder, /*only_plain=*/false);
  for (const AddedToken& token : read_added_tokens(json, file_)) add_token(token);
  for (const auto& [id, token] : files.added) add_token(token);
  read_special_tokens(files, json);
  decide_affixes(files, read_affixes(json, file_));
  build_finders();
}

void TokenizerJson::add_token(const AddedToken& token) {
  const std::string where =
      file_ + ": added token '" + token.text.substr(0, 80) + "' (" + std::to_string(token.id) + ")";
  if (token.text.size() > kMaxAddedTokenBytes) throw Error(where + ": is longer than 1024 bytes");
  // Embeddings have few rows to spare; ids beyond would let a small file ask for much memory.
  if (token.id > 4 * bpe_.vocabulary().size() + 4096) throw Error(where + ": the id is out of range");
  const Vocabulary& vocabulary = bpe_.vocabulary();
  if (vocabulary.contains(token.id) && vocabulary.spelling(token.id) != token.text) {
    throw Error(where + ": the vocabulary calls this id '" + vocabulary.spelling(token.id).substr(0, 80) + "'");
  }
  const std::optional<int32_t> known = vocabulary.find_spelling(token.text);
  if (known && *known != token.id) throw Error(where + ": has the id " + std::to_string(*known) + " in the vocabulary");
  const auto [of_id, new_id] = added_.try_emplace(token.id, token);
  const auto [of_text, new_text] = added_ids_.try_emplace(token.text, token.id);
  if (of_id->second.text != token.text || of_text->second != token.id) {
    throw Error(where + ": contradicts '" + of_id->second.text.substr(0, 80) + "' (" + std::to_string(of_text->second) +
                ")");
  }
  if (of_id->second.special) special_.insert(token.id);
  vocabulary_size_ = std::max<int64_t>(vocabulary_size_, int64_t{token.id} + 1);
}

// The id of a special token, which from here on is found in texts and left out of them when decoding.
std::optional<int32_t> TokenizerJson::resolve(const std::optional<std::string>& text, const char* key) {
  if (!text) return std::nullopt;
  const auto added = added_ids_.find(*text);
  const std::optional<int32_t> id = added != added_ids_.end() ? added->second : bpe_.vocabulary().find_spelling(*text);
  if (!id) {
    throw Error(file_ + ": " + key + " '" + *text + "' is neither in the vocabulary nor an added token",
                "add it to added_tokens, with an id that the model has");
  }
  if (added == added_ids_.end()) {
    AddedToken token;
    token.text = *text;
    token.id = *id;
    add_token(token);
  }
  special_.insert(*id);
  return id;
}

void TokenizerJson::read_special_tokens(const TokenizerFiles& files, const Json& json) {
  bos_id = resolve(files.bos, "bos_token");
  eos_id = resolve(files.eos, "eos_token");
  pad_id = resolve(files.pad, "pad_token");
  std::optional<std::string> unknown = files.unk;
  const Json& model = json.at("model");
  if (!unknown && model.contains("unk_token") && model["unk_token"].is_string()) {
    unknown = model["unk_token"].get<std::string>();
  }
  unk_id = resolve(unknown, "unk_token");
  for (const std::string& text : files.other_special) resolve(text, "additional_special_tokens");
}

// As transformers 5 does: where tokenizer_config.json says add_bos_token or add_eos_token, post_processor counts no
// more.
void TokenizerJson::decide_affixes(const TokenizerFiles& files, const Affixes& affixes) {
  if (files.adds_bos || files.adds_eos) {
    adds_bos = files.adds_bos.value_or(false) && bos_id;
    adds_eos = files.adds_eos.value_or(false) && eos_id;
    return;
  }
  auto decide = [this](const std::optional<int32_t>& affix, std::optional<int32_t>& id, const char* key) {
    if (!affix) return false;
    if (!has_token(*affix)) throw Error(file_ + ": there is no token " + std::to_string(*affix));
    if (!id) id = affix;
    if (*id != *affix) {
      throw Error(file_ + ": post_processor adds '" + piece(*affix) + "', but " + key + " is '" + piece(*id) + "'",
                  std::string("make the two agree, or set add_") + key + " in tokenizer_config.json");
    }
    special_.insert(*id);
    return true;
  };
  adds_bos = decide(affixes.before, bos_id, "bos_token");
  adds_eos = decide(affixes.after, eos_id, "eos_token");
}

void TokenizerJson::build_finders() {
  std::vector<AddedToken> given, normalized;
  for (auto& [id, token] : added_) {
    if (token.normalized && composes_) token.text = compose(token.text);
    (token.normalized ? normalized : given).push_back(token);
  }
  in_given_ = AddedTokenFinder(std::move(given));
  in_normalized_ = AddedTokenFinder(std::move(normalized));
}

void TokenizerJson::encode_into(std::string_view given, std::vector<int32_t>& ids, Begins* begins) const {
  std::string_view text = given;
  std::string repaired;
  OffsetMap given_origins;
  if (well_formed_prefix(given) < given.size()) {
    repaired = replace_ill_formed(given, begins != nullptr ? &given_origins : nullptr);
    text = repaired;
  }
  std::unique_ptr<Workspace> workspace = workspaces_.take();
  workspace->budget = MatchBudget(text.size());
  for (const AddedTokenFinder::Stretch& stretch : in_given_.find(text)) {
    if (stretch.id != AddedTokenFinder::kText) {
      ids.push_back(stretch.id);
      if (begins != nullptr) begins->push_back(static_cast<int64_t>(given_origins.origin(stretch.begin)));
      continue;
    }
    encode_between(text.substr(stretch.begin, stretch.end - stretch.begin), *workspace, ids, begins,
                   [&](size_t at) { return given_origins.origin(stretch.begin + at); });
  }
  workspaces_.give_back(std::move(workspace));
  if (begins == nullptr) return;
  for (size_t i = 1; i < begins->size(); ++i) (*begins)[i] = std::max((*begins)[i], (*begins)[i - 1]);
}

// A stretch between two added tokens that are looked for in the text as it is. origin: of a byte of it in what was
// given.
template <typename Origin>
void TokenizerJson::encode_between(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids,
                                   Begins* begins, const Origin& origin) const {
  std::string composed;
  OffsetMap origins;
  if (composes_ && !is_plainly_composed(text)) {
    composed = compose(text, begins != nullptr ? &origins : nullptr);
    text = composed;
  }
  for (const AddedTokenFinder::Stretch& stretch : in_normalized_.find(text)) {
    auto stretch_origin = [&](size_t at) { return origin(origins.origin(stretch.begin + at)); };
    if (stretch.id == AddedTokenFinder::kText) {
      encode_text(text.substr(stretch.begin, stretch.end - stretch.begin), workspace, ids, begins, stretch_origin);
      continue;
    }
    ids.push_back(stretch.id);
    if (begins != nullptr) begins->push_back(static_cast<int64_t>(stretch_origin(0)));
  }
}

// A stretch without added tokens, normalized.
template <typename Origin>
void TokenizerJson::encode_text(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids, Begins* begins,
                                const Origin& origin) const {
  std::string prefixed;
  const bool prefixes = pre_tokenizer_.adds_prefix_space() && text[0] != ' ';
  if (prefixes) {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  pre_tokenizer_.split(text, workspace.pieces, workspace.scratch, workspace.budget);
  size_t next = ids.size();
  bpe_.encode(text, workspace.pieces, workspace.bpe, ids);
  if (begins == nullptr) return;
  // The bytes of a piece's tokens, end to end, are the piece.
  for (const Piece& piece : workspace.pieces) {
    for (size_t at = piece.begin; at < piece.end; at += bpe_.vocabulary().bytes(ids[next++]).size()) {
      begins->push_back(static_cast<int64_t>(origin(prefixes && at > 0 ? at - 1 : at)));
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder) {
  return std::make_unique<TokenizerJson>(folder);
}

}  // namespace fathom::tokenizer
