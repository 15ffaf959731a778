// Text to token ids and back, as the model's own folder says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::tokenizer {

struct Encoding {
  std::vector<int32_t> ids;
  // Of each id, where its first byte is in the text that was given; of a byte that was made in place of others, where
  // those begin. Never descending.
  std::vector<int64_t> begins;
};

// The text of a special token.
struct SpecialText {
  size_t begin = 0, end = 0;  // bytes
  int32_t id = 0;
};

// A stretch of a text whose special tokens are text as any other.
struct Literal {
  size_t begin = 0, end = 0;  // bytes
};
using Literals = std::span<const Literal>;  // in order, apart from each other

class Tokenizer {
 public:
  // Opens T5's spiece.model, else tokenizer.json, else tokenizer.model, with the flags and special tokens of
  // tokenizer_config.json. Throws Error for a folder that has none of them, naming file and key for what is not
  // supported, and other kinds of tokenizers by what they are.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder);
  // Which of them it is. A pointer of git-lfs in place of tokenizer.json or tokenizer.model is passed over beside the
  // other.
  enum class Source { kNone, kTokenizerModel, kSpieceModel, kTokenizerJson };
  static Source source_in(const std::filesystem::path& folder);
  static bool is_in(const std::filesystem::path& folder) { return source_in(folder) != Source::kNone; }
  // Of a folder that has none of them: by which file it has one of a kind that is not supported, if it has.
  static std::optional<std::string> other_kind_in(const std::filesystem::path& folder);
  // The name of its file; of a folder that has one.
  static std::string_view file_of(Source source);
  virtual ~Tokenizer() = default;

  // Without BOS and EOS. What is not UTF-8 counts as U+FFFD. Threads may encode at the same time.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Special tokens that begin or end inside a literal are not found there: with all of the text literal, the ids are
  // those of transformers' split_special_tokens.
  virtual Encoding encode_with_offsets(std::string_view text, Literals literals = {}) const = 0;
  // The special tokens that encoding finds in the text, in order.
  virtual std::vector<SpecialText> special_tokens_in(std::string_view text) const = 0;
  // Special tokens are left out; bytes that are not UTF-8 become U+FFFD.
  virtual std::string decode(const std::vector<int32_t>& ids) const;
  // What the id adds to a text: any bytes, empty for special tokens.
  virtual std::string token_bytes(int32_t id) const = 0;
  virtual std::string piece(int32_t id) const = 0;  // as stored, for display
  virtual int64_t vocabulary_size() const = 0;
  // The same of the first id that adds anything: without the blank that encoding put at the start.
  virtual std::string first_token_bytes(int32_t id) const { return token_bytes(id); }

  // As the tokenizer's files say; unset where they name none.
  std::optional<int32_t> bos_id, eos_id, pad_id, unk_id;
  bool adds_bos = true;   // tokenizer_config.json's add_bos_token, else as tokenizer.json's post_processor does
  bool adds_eos = false;  // add_eos_token
};

}  // namespace fathom::tokenizer
