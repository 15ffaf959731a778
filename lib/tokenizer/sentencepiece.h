// The SentencePiece engine, with the conventions of transformers' LlamaTokenizer (legacy=False) and GemmaTokenizer.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// folder holds tokenizer.model. A text is encoded so (transformers 4.57, tokenization_llama.py): "▁" stands for a
// blank; one blank is put before a text that is not empty, whether it begins with one or not, where add_prefix_space
// says so, else for LlamaTokenizer and CodeLlamaTokenizer, else where the model says so (add_dummy_prefix); special and
// added tokens in the text become their own ids; what stands between them goes through SentencePiece without its own
// leading blank.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
