// Opens T5's spiece.model, a SentencePiece Unigram model, with the conventions of transformers' T5Tokenizer.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// folder holds spiece.model; tokenizer_config.json and the like may stand beside it. As transformers 5 (T5Tokenizer)
// has it, which runs such a model on Hugging Face's tokenizers: the model's own table of characters, then words at
// white space, each with a "▁" in front; sentinels <extra_id_0> (the highest id) to <extra_id_99> behind the model's
// pieces, or as many as extra_ids says; EOS behind every text. Its `legacy`, add_bos_token and add_eos_token change
// nothing.
std::unique_ptr<Tokenizer> open_spiece(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
