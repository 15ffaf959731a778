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

namespace fs = std::filesystem;

constexpr const char* kConvert =
    "take a folder in transformers' form, with a tokenizer.json; transformers can write one: "
    "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)";

bool begins_with(const fs::path& file, std::string_view wanted) {
  std::string text(wanted.size(), '\0');
  const ssize_t count = ::read(open_to_read(file).get(), text.data(), text.size());
  return count == std::ssize(wanted) && text == wanted;
}

bool is_pointer(const fs::path& file) { return begins_with(file, "version https://git-lfs"); }

}  // namespace

std::optional<std::string> Tokenizer::other_kind_in(const fs::path& folder) {
  struct Kind {
    const char *file, *name;
  };
  for (const Kind& kind : {Kind{"tekken.json", "Mistral's Tekken"},
                           {"vocab.txt", "WordPiece, BERT's"},
                           {"merges.txt", "GPT-2's two files, vocab.json and merges.txt"},
                           {"tiktoken.model", "tiktoken's"},
                           {"sentencepiece.bpe.model", "XLM-RoBERTa's"}}) {
    if (!fs::exists(folder / kind.file)) continue;
    return folder.string() + ": its tokenizer is in " + kind.file + " (" + kind.name + "), which is not supported";
  }
  return std::nullopt;
}

std::string_view Tokenizer::file_of(Source source) {
  switch (source) {
    case Source::kTokenizerModel:
      return "tokenizer.model";
    case Source::kSpieceModel:
      return "spiece.model";
    case Source::kTokenizerJson:
      return "tokenizer.json";
    case Source::kNone:
      break;
  }
  return "none";
}

Tokenizer::Source Tokenizer::source_in(const fs::path& folder) {
  if (fs::exists(folder / "spiece.model")) return Source::kSpieceModel;
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  if (!fs::exists(json)) return fs::exists(model) ? Source::kTokenizerModel : Source::kNone;
  return fs::exists(model) && is_pointer(json) && !is_pointer(model) ? Source::kTokenizerModel : Source::kTokenizerJson;
}

std::unique_ptr<Tokenizer> Tokenizer::open(const fs::path& folder) {
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
  if (const auto other = other_kind_in(folder)) throw Error(*other, kConvert);
  throw Error(folder.string() + ": holds no tokenizer.json, no tokenizer.model and no spiece.model");
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace fathom::tokenizer
