// The model between added tokens, with a workspace per thread that encodes.
#include "tokenizer/pipeline.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMaxAddedTokenBytes = 1024;
constexpr size_t kKeptPieces = size_t{1} << 16;  // a workspace that grew beyond gives its memory back

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

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(Pipeline pipeline);

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    encode_into(text, ids, nullptr);
    return ids;
  }
  Encoding encode_with_offsets(std::string_view text, Literals literals) const override {
    Encoding encoding;
    encode_into(text, encoding.ids, &encoding.begins, literals);
    return encoding;
  }
  std::vector<SpecialText> special_tokens_in(std::string_view text) const override;
  std::string token_bytes(int32_t id) const override {
    if (!has_token(id)) return "";  // models have rows in their embeddings that no token uses
    if (special_.count(id)) return "";
    const auto added = added_.find(id);
    return added != added_.end() ? model_->added_bytes(added->second.text, false) : model_->bytes(id);
  }
  std::string first_token_bytes(int32_t id) const override {
    if (!has_token(id) || special_.count(id)) return "";
    const auto added = added_.find(id);
    return added != added_.end() ? model_->added_bytes(added->second.text, true) : model_->first_bytes(id);
  }
  std::string piece(int32_t id) const override {
    if (!has_token(id)) return "<no token " + std::to_string(id) + ">";
    const auto added = added_.find(id);
    return added != added_.end() ? added->second.text : model_->spelling(id);
  }
  int64_t vocabulary_size() const override { return vocabulary_size_; }

 private:
  using Begins = std::vector<int64_t>;

  void add_token(const AddedToken& token);
  std::optional<int32_t> resolve(const TokenizerFiles& files, const std::optional<std::string>& text, const char* key);
  void read_special_tokens(const Pipeline& pipeline);
  void decide_affixes(const TokenizerFiles& files, const Affixes& affixes);
  void build_finders();
  bool has_token(int32_t id) const { return model_->contains(id) || added_.count(id) > 0; }

  void encode_into(std::string_view given, std::vector<int32_t>& ids, Begins* begins, Literals literals = {}) const;
  template <typename Origin>
  void encode_between(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids, Begins* begins,
                      Literals literals, const Origin& origin) const;
  std::string file_;
  std::unique_ptr<TextModel> model_;
  Normalizer normalizer_;
  std::map<int32_t, AddedToken> added_;
  std::map<std::string, int32_t, std::less<>> added_ids_;  // by text
  std::set<int32_t> special_;
  AddedTokenFinder in_given_;       // tokens looked for in the text as it is
  AddedTokenFinder in_normalized_;  // and in the normalized one
  bool special_in_normalized_ = false;
  int64_t vocabulary_size_ = 0;
  mutable Workspaces workspaces_;
};

PipelineTokenizer::PipelineTokenizer(Pipeline pipeline)
    : file_(std::move(pipeline.file)),
      model_(std::move(pipeline.model)),
      normalizer_(std::move(pipeline.normalizer)),
      vocabulary_size_(model_->size()) {
  for (const AddedToken& token : pipeline.added) add_token(token);
  for (const auto& [id, token] : pipeline.files.added) add_token(token);
  read_special_tokens(pipeline);
  decide_affixes(pipeline.files, pipeline.affixes);
  build_finders();
}

void PipelineTokenizer::add_token(const AddedToken& token) {
  const std::string where =
      file_ + ": added token '" + token.text.substr(0, 80) + "' (" + std::to_string(token.id) + ")";
  if (token.text.size() > kMaxAddedTokenBytes) throw Error(where + ": is longer than 1024 bytes");
  // Embeddings have few rows to spare; ids beyond would let a small file ask for much memory.
  if (token.id > 4 * model_->size() + 4096) throw Error(where + ": the id is out of range");
  const TextModel& vocabulary = *model_;
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
std::optional<int32_t> PipelineTokenizer::resolve(const TokenizerFiles& files, const std::optional<std::string>& text,
                                                  const char* key) {
  if (!text) return std::nullopt;
  const auto added = added_ids_.find(*text);
  const std::optional<int32_t> id = added != added_ids_.end() ? added->second : model_->find_spelling(*text);
  if (!id) {
    throw Error(file_ + ": " + key + " '" + *text + "' is neither in the vocabulary nor an added token",
                "add it to added_tokens, with an id that the model has");
  }
  if (added == added_ids_.end()) {
    AddedToken token = files.special_token(*text);
    token.id = *id;
    add_token(token);
  }
  special_.insert(*id);
  return id;
}

void PipelineTokenizer::read_special_tokens(const Pipeline& pipeline) {
  const TokenizerFiles& files = pipeline.files;
  bos_id = resolve(files, files.bos, "bos_token");
  eos_id = resolve(files, files.eos, "eos_token");
  pad_id = resolve(files, files.pad, "pad_token");
  unk_id = resolve(files, files.unk ? files.unk : pipeline.unknown, "unk_token");
  for (const std::string& text : files.other_special) resolve(files, text, "additional_special_tokens");
}

// As transformers 5 does: where tokenizer_config.json says add_bos_token or add_eos_token, post_processor counts no
// more.
void PipelineTokenizer::decide_affixes(const TokenizerFiles& files, const Affixes& affixes) {
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

void PipelineTokenizer::build_finders() {
  std::vector<AddedToken> given, normalized;
  for (auto& [id, token] : added_) {
    if (token.normalized) {
      Rewritten text(token.text);
      MatchBudget budget(token.text.size());
      normalizer_.apply(text, budget);
      token.text = std::string(text.text);
      if (token.text.empty()) {
        throw Error(file_ + ": added token " + std::to_string(id) + ": normalizer leaves nothing of it",
                    "give it \"normalized\": false");
      }
    }
    (token.normalized ? normalized : given).push_back(token);
    (token.normalized ? normalized : given).back().special = special_.count(id) > 0;
    special_in_normalized_ |= token.normalized && special_.count(id) > 0;
  }
  in_given_ = AddedTokenFinder(std::move(given));
  in_normalized_ = AddedTokenFinder(std::move(normalized));
}

std::vector<SpecialText> PipelineTokenizer::special_tokens_in(std::string_view given) const {
  std::vector<SpecialText> found;
  const auto add = [&](const AddedTokenFinder::Stretch& stretch, size_t begin, size_t end) {
    if (special_.count(stretch.id)) found.push_back({begin, end, stretch.id});
  };
  if (well_formed_prefix(given) < given.size()) return found;
  for (const AddedTokenFinder::Stretch& stretch : in_given_.find(given)) {
    add(stretch, stretch.begin, stretch.end);
    if (stretch.id != AddedTokenFinder::kText || !special_in_normalized_) continue;
    Rewritten normalized(given.substr(stretch.begin, stretch.end - stretch.begin));
    MatchBudget budget(given.size());
    normalizer_.apply(normalized, budget);
    const auto origin = [&](size_t at) { return stretch.begin + normalized.origin(at); };
    for (const AddedTokenFinder::Stretch& inner : in_normalized_.find(normalized.text)) {
      add(inner, origin(inner.begin), inner.end < normalized.text.size() ? origin(inner.end) : stretch.end);
    }
  }
  return found;
}

void PipelineTokenizer::encode_into(std::string_view given, std::vector<int32_t>& ids, Begins* begins,
                                    Literals literals) const {
  std::string_view text = given;
  std::string repaired;
  OffsetMap given_origins;
  if (well_formed_prefix(given) < given.size()) {
    repaired = replace_ill_formed(given, &given_origins);
    text = repaired;
  }
  std::unique_ptr<Workspace> workspace = workspaces_.take();
  workspace->budget = MatchBudget(text.size());
  const auto given_origin = [&](size_t at) { return given_origins.origin(at); };
  for (const AddedTokenFinder::Stretch& stretch : in_given_.find(text, inside(literals, given_origin))) {
    if (stretch.id != AddedTokenFinder::kText) {
      ids.push_back(stretch.id);
      if (begins != nullptr) begins->push_back(static_cast<int64_t>(given_origin(stretch.begin)));
      continue;
    }
    encode_between(text.substr(stretch.begin, stretch.end - stretch.begin), *workspace, ids, begins, literals,
                   [&](size_t at) { return given_origin(stretch.begin + at); });
  }
  workspaces_.give_back(std::move(workspace));
  if (begins == nullptr) return;
  for (size_t i = 1; i < begins->size(); ++i) (*begins)[i] = std::max((*begins)[i], (*begins)[i - 1]);
}

// A stretch between two added tokens that are looked for in the text as it is. origin: of a byte of it in what was
// given.
template <typename Origin>
void PipelineTokenizer::encode_between(std::string_view text, Workspace& workspace, std::vector<int32_t>& ids,
                                       Begins* begins, Literals literals, const Origin& origin) const {
  Rewritten normalized(text);
  normalizer_.apply(normalized, workspace.budget);
  const auto text_origin = [&](size_t at) { return origin(normalized.origin(at)); };
  for (const AddedTokenFinder::Stretch& stretch : in_normalized_.find(normalized.text, inside(literals, text_origin))) {
    auto stretch_origin = [&](size_t at) { return text_origin(stretch.begin + at); };
    if (stretch.id != AddedTokenFinder::kText) {
      ids.push_back(stretch.id);
      if (begins != nullptr) begins->push_back(static_cast<int64_t>(stretch_origin(0)));
      continue;
    }
    const size_t before = begins == nullptr ? 0 : begins->size();
    model_->encode(normalized.text.substr(stretch.begin, stretch.end - stretch.begin), stretch_origin(0) == 0,
                   workspace, ids, begins);
    if (begins == nullptr) continue;
    for (size_t i = before; i < begins->size(); ++i) {
      (*begins)[i] = static_cast<int64_t>(stretch_origin(static_cast<size_t>((*begins)[i])));
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(Pipeline pipeline) {
  return std::make_unique<PipelineTokenizer>(std::move(pipeline));
}

}  // namespace fathom::tokenizer
