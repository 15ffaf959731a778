// Reads tokenizer.json and the files beside it; the model's type decides which model reads its parts.
#include "tokenizer/tokenizer_json.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/json_value.h"
#include "tokenizer/json_part.h"
#include "tokenizer/pipeline.h"
#include "weights/companion.h"

namespace fathom::tokenizer {
namespace {

Json read_tokenizer_json(const std::filesystem::path& path) {
  const std::string text = read_file(path, weights::kLargestCompanion);
  refuse_other_kind(path, text, "JSON");
  Json json = parse_json(text, path.string());
  if (!json.is_object() || !json.contains("model")) throw Error(path.string() + ": expected an object with a model");
  return json;
}

// Files of 2020 name no type.
std::string model_type(const Json& model, const std::string& where) {
  if (find_key(model, "type") != nullptr) return type_of(model, where);
  if (find_key(model, "merges") != nullptr) return "BPE";
  const Json* tokens = find_key(model, "vocab");
  if (tokens != nullptr && tokens->is_array()) return "Unigram";
  return find_key(model, "continuing_subword_prefix") != nullptr ? "WordPiece" : "WordLevel";
}

bool names_byte_level(const Json* part) {
  if (part == nullptr || !part->is_object()) return false;
  if (const Json* type = find_key(*part, "type"); type != nullptr && *type == "ByteLevel") return true;
  for (const char* key : {"pretokenizers", "decoders"}) {
    const Json* parts = find_key(*part, key);
    if (parts == nullptr || !parts->is_array()) continue;
    for (const Json& each : *parts) {
      if (names_byte_level(&each)) return true;
    }
  }
  return false;
}

std::unique_ptr<TextModel> read_model(const Json& json, const std::string& file) {
  if (!json.at("model").is_object()) throw Error(file + ": model: expected an object");
  const std::string type = model_type(json.at("model"), file + ": model");
  if (type == "BPE" && is_character_bpe(json)) return read_character_model(json, file);
  if (type == "BPE") return read_byte_level_model(json, file);
  if (type == "Unigram") return read_unigram_model(json, file);
  throw Error(
      file + ": model.type: '" + type.substr(0, 80) + "' is not supported",
      "those that are: BPE and Unigram; WordPiece and WordLevel are of encoders such as BERT, which fathom does "
      "not train");
}

}  // namespace

bool is_character_bpe(const Json& json) {
  const Json* model = find_key(json, "model");
  return model != nullptr && model->is_object() && model_type(*model, "model") == "BPE" &&
         !names_byte_level(find_key(json, "pre_tokenizer")) && !names_byte_level(find_key(json, "decoder"));
}

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  const Json json = read_tokenizer_json(path);
  Pipeline pipeline;
  pipeline.file = path.string();
  pipeline.model = read_model(json, pipeline.file);
  pipeline.normalizer = Normalizer(json, pipeline.file);
  pipeline.added = read_added_tokens(json, pipeline.file);
  pipeline.files = read_tokenizer_files(folder);
  if (pipeline.files.is_t5()) pipeline.files.adds_bos = pipeline.files.adds_eos = std::nullopt;  // T5Tokenizer has none
  const Json* unknown = find_key(json.at("model"), "unk_token");
  if (unknown != nullptr && unknown->is_string()) pipeline.unknown = unknown->get<std::string>();
  pipeline.affixes = read_affixes(json, pipeline.file);
  return make_tokenizer(std::move(pipeline));
}

}  // namespace fathom::tokenizer
