// Token ids by the sentencepiece library, special and added tokens by the folder's JSON files.
#include "tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/character_pairs.h"
#include "tokenizer/offset_map.h"
#include "tokenizer/protobuf.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr std::string_view kBlank = "\xe2\x96\x81";  // "▁" U+2581
constexpr char32_t kBlankCode = 0x2581;

// SentencePiece takes up to 240 bytes of memory for one of text, so a long text is given to it in stretches.
constexpr size_t kStretch = size_t{1} << 16;         // bytes from which on a place to cut is looked for
constexpr size_t kLongestStretch = size_t{1} << 22;  // without such a place

// Whether a SentencePiece model rewrites characters before it tokenizes: normalizer_spec (field 3) has rules in
// precompiled_charsmap (its field 2).
// adds_prefix becomes whether its own add_dummy_prefix (field 3 there) is set, as it is where nothing is said.
bool rewrites_characters(std::string_view proto, bool& adds_prefix) {
  bool rewrites = false;
  adds_prefix = true;
  const bool whole = for_each_field(proto, [&](const ProtobufField& spec) {
    if (spec.number != 3) return;
    rewrites |= !for_each_field(spec.bytes, [&](const ProtobufField& rules) {
      rewrites |= rules.number == 2 && !rules.bytes.empty();
      if (rules.number == 3) adds_prefix = rules.value != 0;
    });
  });
  return rewrites || !whole;
}

// "IQ== 0": a token in base64 and its rank, a line each.
void refuse_tiktoken(const std::filesystem::path& path, std::string_view text) {
  const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size()));
  const size_t blank = line.find(' ');
  if (blank == 0 || blank == std::string_view::npos || line.size() > 1024) return;
  const auto all_in = [](std::string_view part, std::string_view letters) {
    return !part.empty() && part.find_first_not_of(letters) == std::string_view::npos;
  };
  if (!all_in(line.substr(0, blank), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")) return;
  if (!all_in(line.substr(blank + 1), "0123456789\r")) return;
  throw Error(
      path.string() + ": is tiktoken's list of tokens, not a SentencePiece model",
      "take the model's folder in transformers' form, with its tokenizer.json; of Llama 3 it is the folder above "
      "`original`");
}

// Appends text with `from` replaced by `to`; origins learns where the bytes came from.
void append_replaced(std::string& result, std::string_view text, std::string_view from, std::string_view to,
                     OffsetMap& origins) {
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find(from, at), text.size());
    origins.copied(result.size(), at);
    result.append(text.substr(at, next - at));
    if (next < text.size()) {
      origins.rewritten(result.size(), next);
      result.append(to);
    }
    at = next + from.size();
  }
}

// Classes that add nothing to what the files say, with or without Fast behind their names.
constexpr std::string_view kPrefixingClasses[] = {"LlamaTokenizer", "CodeLlamaTokenizer"};
constexpr std::string_view kOtherClasses[] = {"", "GemmaTokenizer", "TokenizersBackend", "PreTrainedTokenizer"};

// Whether the class puts a blank in front, whatever the model says.
bool class_adds_prefix(std::string_view name, const std::filesystem::path& folder) {
  const std::string_view whole = name;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (std::ranges::count(kPrefixingClasses, name) > 0) return true;
  if (std::ranges::count(kOtherClasses, name) > 0) return false;
  throw Error((folder / "tokenizer_config.json").string() + ": tokenizer_class \"" + std::string(whole) +
                  "\" is not supported with a tokenizer.model",
              "those that are: LlamaTokenizer, CodeLlamaTokenizer, GemmaTokenizer, TokenizersBackend, "
              "PreTrainedTokenizerFast. A tokenizer.json may be of any class, and is read where both are there");
}

class SentencePiece : public Tokenizer {
 public:
  explicit SentencePiece(const std::filesystem::path& folder);

  std::vector<int32_t> encode(std::string_view text) const override;
  Encoding encode_with_offsets(std::string_view text, Literals literals) const override;
  std::vector<SpecialText> special_tokens_in(std::string_view text) const override;
  std::string token_bytes(int32_t id) const override;
  std::string piece(int32_t id) const override;
  int64_t vocabulary_size() const override { return vocabulary_size_; }
  std::string first_token_bytes(int32_t id) const override;

 private:
  void load_model();
  void add_token(const AddedToken& token);
  std::optional<int32_t> find_id(const std::string& text) const;
  std::optional<int32_t> resolve(const TokenizerFiles& files, const std::optional<std::string>& text, int model_id,
                                 const char* key);
  // Appends the tokens of text[begin, end) and where in `text` they begin.
  void encode_plain(std::string_view text, size_t begin, size_t end, Encoding& encoding) const;
  void encode_stretch(std::string_view text, size_t begin, size_t end, Encoding& encoding) const;
  // How much of a text can be tokenized apart from the rest: a little above kStretch, all of a text that is shorter or
  // may not be cut. Throws Error where that is above kLongestStretch.
  size_t stretch_of(std::string_view text, bool may_be_cut) const;
  bool can_cut_between(char32_t left, char32_t right) const;
  void find_pairs() const;
  int32_t model_size() const { return model_.GetPieceSize(); }
  void check_id(int32_t id) const;

  std::filesystem::path path_;
  sentencepiece::SentencePieceProcessor model_;
  std::string unknown_;                        // text of the model's unknown piece
  size_t unknown_length_ = 0;                  // tokens into which SentencePiece takes that text apart
  std::map<std::string, AddedToken> matched_;  // tokens that are found in a text before SentencePiece sees it
  AddedTokenFinder finder_;                    // of those
  std::map<int32_t, std::string> added_;       // texts of ids beyond the model's own
  std::set<int32_t> special_;
  bool adds_prefix_space_ = true;  // at first the model's own
  int64_t vocabulary_size_ = 0;
  bool rewrites_characters_ = false;
  mutable std::once_flag pairs_found_;
  mutable CharacterPairs pairs_;  // found for the first long text
};

SentencePiece::SentencePiece(const std::filesystem::path& folder) : path_(folder / "tokenizer.model") {
  load_model();
  const TokenizerFiles files = read_tokenizer_files(folder);
  adds_bos = files.adds_bos.value_or(true);
  adds_eos = files.adds_eos.value_or(false);
  const bool class_prefixes = class_adds_prefix(files.tokenizer_class, folder);
  adds_prefix_space_ = files.adds_prefix_space.value_or(class_prefixes || adds_prefix_space_);
  vocabulary_size_ = model_size();
  for (const auto& [id, token] : files.added) add_token(token);
  bos_id = resolve(files, files.bos, model_.bos_id(), "bos_token");
  eos_id = resolve(files, files.eos, model_.eos_id(), "eos_token");
  unk_id = resolve(files, files.unk, model_.unk_id(), "unk_token");
  pad_id = resolve(files, files.pad, model_.pad_id(), "pad_token");
  for (const std::string& text : files.other_special) resolve(files, text, -1, "additional_special_tokens");
  std::vector<AddedToken> plain;
  for (const auto& [text, token] : matched_) {
    plain.push_back(token);
    plain.back().special = special_.contains(token.id);
  }
  finder_ = AddedTokenFinder(std::move(plain));
  if (adds_bos && !bos_id) throw Error(path_.string() + ": add_bos_token is set, but there is no BOS token");
  if (adds_eos && !eos_id) throw Error(path_.string() + ": add_eos_token is set, but there is no EOS token");
}

void SentencePiece::load_model() {
  std::string proto = read_file(path_, kMaxModelBytes);
  refuse_other_kind(path_, proto, "a SentencePiece model");
  refuse_tiktoken(path_, proto);
  rewrites_characters_ = rewrites_characters(proto, adds_prefix_space_);
  // Protocol buffers merge a repeated message field by field, so this sets add_dummy_prefix (field 3 of
  // normalizer_spec, itself field 3) to false: the leading blank is ours to put.
  proto.append("\x1a\x02\x18\x00", 4);
  std::string problem;
  try {
    const auto status = model_.LoadFromSerializedProto(proto);
    if (!status.ok() || model_size() <= 0) problem = status.ToString();
  } catch (const std::exception& error) {  // of the library's trie, for pieces that it cannot hold
    problem = error.what();
  }
  if (!problem.empty()) {
    throw Error(path_.string() + ": not a SentencePiece model: " + problem, "download the file again");
  }
  if (model_.unk_id() < 0) throw Error(path_.string() + ": has no unknown piece");
  unknown_ = model_.IdToPiece(model_.unk_id());
  unknown_length_ = model_.EncodeAsIds(unknown_).size();
}

void SentencePiece::add_token(const AddedToken& token) {
  if (token.id < model_size()) {
    if (model_.IdToPiece(token.id) != token.text) {
      throw Error(path_.string() + ": id " + std::to_string(token.id) + " is '" + model_.IdToPiece(token.id) +
                  "', but the files beside it call it '" + token.text + "'");
    }
  } else {
    added_[token.id] = token.text;
    vocabulary_size_ = std::max<int64_t>(vocabulary_size_, int64_t{token.id} + 1);
  }
  matched_[token.text] = token;
  if (token.special) special_.insert(token.id);
}

std::optional<int32_t> SentencePiece::find_id(const std::string& text) const {
  if (auto found = matched_.find(text); found != matched_.end()) return found->second.id;
  const int id = model_.PieceToId(text);  // the unknown id for a text that is no piece
  if (id >= 0 && id < model_size() && model_.IdToPiece(id) == text) return id;
  return std::nullopt;
}

// The id of a special token: that of its text, or the model's own where no file names a text.
std::optional<int32_t> SentencePiece::resolve(const TokenizerFiles& files, const std::optional<std::string>& text,
                                              int model_id, const char* key) {
  std::optional<int32_t> id;
  if (text) {
    id = find_id(*text);
    if (!id) {
      throw Error(path_.string() + ": " + key + " '" + *text + "' is neither a piece of the model nor an added token",
                  "add it to added_tokens_decoder of tokenizer_config.json, with an id that the model has");
    }
  } else if (model_id >= 0) {
    id = model_id;
  }
  if (id) {
    special_.insert(*id);
    AddedToken token = files.special_token(text ? *text : model_.IdToPiece(*id));
    token.id = *id;
    matched_.try_emplace(token.text, token);
  }
  return id;
}

void SentencePiece::check_id(int32_t id) const {
  if (id >= 0 && (id < model_size() || added_.count(id))) return;
  throw Error(path_.string() + ": there is no token " + std::to_string(id));
}

void SentencePiece::find_pairs() const {
  for (int id = 0; id < model_size(); ++id) pairs_.add(model_.IdToPiece(id));
}

// Runs of blanks may count as one, and two unknown characters become one token, unless they are taken apart into bytes.
bool SentencePiece::can_cut_between(char32_t left, char32_t right) const {
  if (left == ' ') return false;
  std::call_once(pairs_found_, &SentencePiece::find_pairs, this);
  if (pairs_.contains(left, right == ' ' ? kBlankCode : right)) return false;
  std::string known;
  append_character(known, left);
  return model_.PieceToId(known) != model_.unk_id() || model_.IsByte(model_.PieceToId("<0x00>"));
}

size_t SentencePiece::stretch_of(std::string_view text, bool may_be_cut) const {
  if (text.size() <= (may_be_cut ? kStretch : kLongestStretch)) return text.size();
  for (size_t at = previous_character(text, kStretch); may_be_cut && at <= kLongestStretch;) {
    const Character left = character_at(text.data() + at);
    at += left.bytes;
    if (at == text.size() || can_cut_between(left.code, character_at(text.data() + at).code)) return at;
  }
  throw Error("a text of " + std::to_string(text.size()) + " bytes has no place in its first " +
                  std::to_string(kLongestStretch) + " to cut it at, so it is too long for SentencePiece",
              "write it in several lines");
}

void SentencePiece::encode_plain(std::string_view text, size_t begin, size_t end, Encoding& encoding) const {
  const std::string_view all = text.substr(begin, end - begin);
  const bool may_be_cut = !rewrites_characters_ && (all.size() <= kStretch || well_formed_prefix(all) == all.size());
  while (begin < end) {
    const size_t stretch = stretch_of(text.substr(begin, end - begin), may_be_cut);
    encode_stretch(text, begin, begin + stretch, encoding);
    begin += stretch;
  }
}

// The unknown piece in front keeps blanks at the start, which models with remove_extra_whitespaces would lose.
void SentencePiece::encode_stretch(std::string_view text, size_t begin, size_t end, Encoding& encoding) const {
  const std::string_view plain = text.substr(begin, end - begin);
  const bool leading = plain[0] == ' ' || plain.starts_with(kBlank);
  const size_t before = leading ? unknown_.size() : 0;
  const auto tokens = model_.EncodeAsImmutableProto(leading ? unknown_ + std::string(plain) : std::string(plain));
  for (size_t i = leading ? std::min(unknown_length_, tokens.pieces_size()) : 0; i < tokens.pieces_size(); ++i) {
    const auto token = tokens.pieces(static_cast<int>(i));
    encoding.ids.push_back(static_cast<int32_t>(token.id()));
    encoding.begins.push_back(static_cast<int64_t>(begin + std::max<size_t>(token.begin(), before) - before));
  }
}

std::vector<int32_t> SentencePiece::encode(std::string_view text) const { return encode_with_offsets(text, {}).ids; }

std::vector<SpecialText> SentencePiece::special_tokens_in(std::string_view text) const {
  std::vector<SpecialText> found;
  for (const auto& [begin, end, id] : finder_.find(text)) {
    if (special_.contains(id)) found.push_back({begin, end, id});
  }
  return found;
}

Encoding SentencePiece::encode_with_offsets(std::string_view input, Literals literals) const {
  Encoding encoding;
  if (input.empty()) return encoding;
  std::string text = adds_prefix_space_ ? " " : "";
  OffsetMap origins;
  origins.rewritten(0, 0);
  append_replaced(text, input, kBlank, " ", origins);
  const auto origin = [&](size_t at) { return origins.origin(at); };
  const std::vector<AddedTokenFinder::Stretch> stretches = finder_.find(text, inside(literals, origin));
  for (size_t i = 0; i < stretches.size(); ++i) {
    const auto& [begin, end, id] = stretches[i];
    if (id != AddedTokenFinder::kText) {
      encoding.ids.push_back(id);
      encoding.begins.push_back(static_cast<int64_t>(begin));
      continue;
    }
    // The prefix alone before a special token is dropped.
    const bool only_prefix = adds_prefix_space_ && end == 1 && i + 1 < stretches.size();
    if (!only_prefix || !special_.contains(stretches[i + 1].id)) encode_plain(text, begin, end, encoding);
  }
  for (int64_t& begin : encoding.begins) begin = static_cast<int64_t>(origin(static_cast<size_t>(begin)));
  return encoding;
}

std::string SentencePiece::token_bytes(int32_t id) const {
  check_id(id);
  if (special_.count(id)) return "";
  if (id >= model_size()) return added_.at(id);
  if (model_.IsControl(id)) return "";
  const std::string& piece = model_.IdToPiece(id);
  if (model_.IsByte(id))
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));  // "<0x41>"
  std::string text;
  OffsetMap origins;
  append_replaced(text, piece, kBlank, " ", origins);
  return text;
}

std::string SentencePiece::first_token_bytes(int32_t id) const {
  std::string bytes = token_bytes(id);
  if (adds_prefix_space_ && bytes.starts_with(' ')) bytes.erase(0, 1);
  return bytes;
}

std::string SentencePiece::piece(int32_t id) const {
  check_id(id);
  return id < model_size() ? model_.IdToPiece(id) : added_.at(id);
}

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& folder) {
  return std::make_unique<SentencePiece>(folder);
}

}  // namespace fathom::tokenizer
