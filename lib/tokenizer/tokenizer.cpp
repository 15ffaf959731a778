// Chooses the engine for a folder's tokenizer: SentencePiece is the one that there is.
#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "tokenizer/sentencepiece.h"

namespace fathom::tokenizer {

std::unique_ptr<Tokenizer> Tokenizer::open(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "tokenizer.model")) return open_sentencepiece(folder);
  if (std::filesystem::exists(folder / "tokenizer.json")) {
    throw Error(folder.string() + ": holds a tokenizer.json only, which is not supported yet",
                "Use a model that has a tokenizer.model (SentencePiece), or data lines of input_ids.");
  }
  throw Error(folder.string() + ": holds no tokenizer.model");
}

}  // namespace fathom::tokenizer
