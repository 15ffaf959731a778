// The engine of tokenizer.json: added tokens, a normalizer and a model, as Hugging Face's tokenizers chain them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json_parts.h"

namespace fathom::tokenizer {

// What a folder's files say.
struct Pipeline {
  std::string file;  // what errors call it
  std::unique_ptr<TextModel> model;
  Normalizer normalizer;
  std::vector<AddedToken> added;
  TokenizerFiles files;                // its special tokens are of the vocabulary or added
  std::optional<std::string> unknown;  // where files name none
  Affixes affixes;                     // where files do not say whether BOS and EOS are added
};

// A text is encoded so: added tokens are found in it, what lies between is normalized and searched for the added tokens
// that want that, the rest goes to the model. Throws Error for files that contradict each other.
std::unique_ptr<Tokenizer> make_tokenizer(Pipeline pipeline);

}  // namespace fathom::tokenizer
