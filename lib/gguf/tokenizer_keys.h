// A folder's tokenizer as a GGUF file's keys: its tokens with their kinds, its merges or scores, its special tokens and
// its chat templates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"
#include "weights/gguf_writer.h"

namespace fathom::gguf {

// llama.cpp's kinds of tokens, which are SentencePiece's.
enum class TokenKind : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// A row of the embedding each, in their order.
struct TokenLists {
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  std::vector<float> scores;        // of SentencePiece's
  std::vector<std::string> merges;  // of byte-level BPE: "a b"

  // So many, unused, which llama.cpp's converter calls "[PAD7]".
  explicit TokenLists(int64_t vocabulary);
  // Throws Error, beginning with `where`, for an id that the embedding has no row for.
  void set(int64_t id, std::string text, TokenKind kind, const std::string& where);
};

// An added token's kind: kControl for special ones and for those that look so, kUserDefined for others.
TokenKind kind_of_added(std::string_view text, bool special);

// Of an added token that takes white space in, or matches whole words alone.
void warn_of_flags(const tokenizer::AddedToken& token, const std::string& file);

// What llama.cpp calls the way in which a byte-level tokenizer's text is split, tokenizer.ggml.pre: by the patterns in
// tokenizer.json, and by whether a whole word that is a token is looked for before merges are. llama.cpp's converter
// knows it by what the tokenizer makes of a text. Throws Error naming `file` for patterns that llama.cpp has no name
// for.
std::string pre_tokenizer_name(const Json& tokenizer_json, const std::string& file);

// Of a folder whose tokenizer is byte-level BPE in tokenizer.json, SentencePiece's BPE in tokenizer.model, or T5's
// Unigram in spiece.model; all fill lists and return the keys that only they have. Throw Error naming what llama.cpp
// does otherwise, and warn where that is a matter of single texts.
weights::GgufKeys byte_level_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                                  TokenLists& lists);
weights::GgufKeys sentencepiece_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                                     TokenLists& lists);
weights::GgufKeys spiece_keys(const std::filesystem::path& folder, const tokenizer::Tokenizer& tokenizer,
                              TokenLists& lists);

// All of them. vocabulary: rows of the embedding. Of a folder without a tokenizer: the one key that says so.
weights::GgufKeys tokenizer_keys(const std::filesystem::path& folder, const arch::Architecture& model,
                                 int64_t vocabulary);

}  // namespace fathom::gguf
