// What an engine asks of the model in tokenizer.json: ids of the text between added tokens, and what ids stand for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/regex.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_cache.h"

namespace fathom::tokenizer {

// What one thread encodes with; kept from text to text.
struct Workspace {
  WordCache cache;
  BpeWorkspace bpe;
  UnigramWorkspace unigram;
  std::vector<Piece> pieces, scratch;
  MatchBudget budget{0};  // of the text that is encoded
};

class TextModel {
 public:
  virtual ~TextModel() = default;

  // Appends the tokens of a stretch of text that is normalized, well-formed and not empty; begins, if set, where in it
  // each token begins, or where that begins which the token's first byte stands for. at_start: the stretch begins where
  // the whole text does.
  virtual void encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
                      std::vector<int64_t>* begins) const = 0;

  virtual int64_t size() const = 0;  // the highest id + 1
  virtual bool contains(int64_t id) const = 0;
  virtual std::optional<int32_t> find_spelling(std::string_view spelling) const = 0;
  // Of an id that is contained.
  virtual std::string spelling(int32_t id) const = 0;
  virtual std::string bytes(int32_t id) const = 0;        // that it adds to a text
  virtual std::string first_bytes(int32_t id) const = 0;  // the same at the text's beginning
  // What an added token adds to a text, at its beginning or behind it.
  virtual std::string added_bytes(const std::string& token, bool /*first*/) const { return token; }
};

// The models of a whole tokenizer.json, with its pre_tokenizer and decoder. Throw Error naming `file` and key for what
// is not supported.
std::unique_ptr<TextModel> read_byte_level_model(const Json& json, const std::string& file);
std::unique_ptr<TextModel> read_character_model(const Json& json, const std::string& file);
std::unique_ptr<TextModel> read_unigram_model(const Json& json, const std::string& file);

// drops_first_marks: decoding leaves the marks of the first token out, rather than making blanks of them.
std::unique_ptr<TextModel> make_unigram_model(Unigram unigram, MarkedWords words, bool drops_first_marks);

}  // namespace fathom::tokenizer
