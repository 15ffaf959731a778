// A tokenizer.json: opened, and a text encoded with it and decoded again. Byte tokens that its vocabulary lacks are put
// in, of byte-level files and of those with byte_fallback, so that small files get far.
#include <cstdio>
#include <stdexcept>

#include "base/error.h"
#include "base/json_value.h"
#include "scratch_folder.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace {

void complete(fathom::Json& tokenizer) {
  if (!tokenizer.is_object() || !tokenizer.contains("model") || !tokenizer["model"].is_object()) return;
  fathom::Json& model = tokenizer["model"];
  if (!model.contains("vocab") || !model["vocab"].is_object()) return;
  fathom::Json& vocabulary = model["vocab"];
  int free_id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = fathom::tokenizer::spelling_of(std::string(1, static_cast<char>(byte)));
    if (!vocabulary.contains(spelling)) vocabulary[spelling] = 1000 + free_id++;
  }
  if (model.value("byte_fallback", fathom::Json()) != true) return;
  for (int byte = 0; byte < 256; ++byte) {
    char spelling[8];
    std::snprintf(spelling, sizeof spelling, "<0x%02X>", static_cast<unsigned>(byte));
    if (!vocabulary.contains(spelling)) vocabulary[spelling] = 1000 + free_id++;
  }
}

// What the tokens say is what the text said, but for what added tokens and normal forms take out.
void round_trip(const fathom::tokenizer::Tokenizer& tokenizer, std::string_view text) {
  const fathom::tokenizer::Encoding encoding = tokenizer.encode_with_offsets(text);
  if (encoding.ids != tokenizer.encode(text)) throw std::logic_error("offsets change the ids");
  if (encoding.begins.size() != encoding.ids.size()) throw std::logic_error("an id has no offset");
  int64_t last = 0;
  for (const int64_t begin : encoding.begins) {
    if (begin < last || begin > static_cast<int64_t>(text.size())) throw std::logic_error("an offset is out of order");
    last = begin;
  }
  tokenizer.decode(encoding.ids);
  for (const int32_t id : encoding.ids) tokenizer.piece(id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  const std::string_view file = fathom::fuzz::text_of(data, size);
  try {
    fathom::Json json = fathom::parse_json(file, "tokenizer.json");
    complete(json);
    folder.write("tokenizer.json", json.dump());
    const auto tokenizer = fathom::tokenizer::Tokenizer::open(folder.path());
    round_trip(
        *tokenizer,
        "A day's  work: 1234 ab\n\n Grüße, 世界 😀 e\u0301 <|a|> \xff\xfe\t aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!");
    round_trip(*tokenizer, file.substr(0, 1024));
  } catch (const fathom::Error&) {
  } catch (const fathom::Json::exception&) {  // of text that is not UTF-8, written back
  }
  return 0;
}
