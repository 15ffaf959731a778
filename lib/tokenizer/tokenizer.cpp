// Chooses the engine for a folder's tokenizer.
#include "tokenizer/tokenizer.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/spiece.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer_json.h"

namespace fathom::tokenizer {
namespace {

// A SentencePiece model is a protocol buffer whose first field holds the pieces. Some folders have tiktoken's list of
// tokens under the same name, which is text.
bool is_sentencepiece(const std::filesystem::path& model) {
  char first = 0;
  return ::read(open_to_read(model).get(), &first, 1) == 1 && first == 0x0A;
}

}  // namespace

Tokenizer::Source Tokenizer::source_in(const std::filesystem::path& folder) {
  const bool model = std::filesystem::exists(folder / "tokenizer.model");
  const bool json = std::filesystem::exists(folder / "tokenizer.json");
  if (model && (!json || is_sentencepiece(folder / "tokenizer.model"))) return Source::kTokenizerModel;
  if (std::filesystem::exists(folder / "spiece.model")) return Source::kSpieceModel;
  return json ? Source::kTokenizerJson : Source::kNone;
}

std::unique_ptr<Tokenizer> Tokenizer::open(const std::filesystem::path& folder) {
  switch (source_in(folder)) {
    case Source::kTokenizerModel:
      return open_sentencepiece(folder);
    case Source::kSpieceModel:
      return open_spiece(folder);
    case Source::kTokenizerJson:
      return open_tokenizer_json(folder);
    case Source::kNone:
      break;
  }
  throw Error(folder.string() + ": holds no tokenizer.model, no spiece.model and no tokenizer.json");
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace fathom::tokenizer
