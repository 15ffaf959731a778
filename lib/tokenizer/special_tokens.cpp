// Reads the JSON files beside a tokenizer's model, in the spellings of transformers 4 and 5.
#include "tokenizer/special_tokens.h"

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::tokenizer {
namespace {

namespace fs = std::filesystem;

// Ids beyond any real vocabulary are a sign of a hostile or damaged file.
constexpr int64_t kMaxId = int64_t{1} << 24;
constexpr uint64_t kMostExtraIds = 4096;  // T5 has 100

const Json* find(const Json& object, const char* key) {
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json value = read_json(path);
  if (!value.is_object()) throw Error(path.string() + ": expected an object");
  return value;
}

// "<s>" or {"content": "<s>", …}.
std::string token_text(const Json& value, const std::string& where) {
  const Json* text = value.is_object() ? find(value, "content") : &value;
  if (text == nullptr || !text->is_string() || text->get_ref<const std::string&>().empty()) {
    throw Error(where + ": expected the text of a token");
  }
  return text->get<std::string>();
}

std::optional<bool> read_flag(const Json& config, const char* key, const std::string& file) {
  const Json* value = find(config, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) throw Error(file + ": " + key + ": expected true or false, got " + value->dump());
  return value->get<bool>();
}

void add_token(TokenizerFiles& files, AddedToken token, const std::string& where) {
  if (token.id < 0 || token.id > kMaxId) throw Error(where + ": id " + std::to_string(token.id) + " is out of range");
  const auto same_id = files.added.find(token.id);
  const auto same_text = files.added_ids.find(token.text);
  if (same_id == files.added.end() && same_text == files.added_ids.end()) {
    files.added_ids[token.text] = token.id;
    files.added[token.id] = std::move(token);
    return;
  }
  const AddedToken& other = same_id != files.added.end() ? same_id->second : files.added.at(same_text->second);
  if (other.id == token.id && other.text == token.text) return;
  throw Error(where + ": '" + token.text + "' (" + std::to_string(token.id) + ") contradicts '" + other.text + "' (" +
              std::to_string(other.id) + ")");
}

int32_t parse_id(const std::string& text, const std::string& where) {
  const bool digits = !text.empty() && text.size() <= 8 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) throw Error(where + ": '" + text.substr(0, 40) + "' is not the id of a token");
  return std::stoi(text);
}

void read_added_tokens(TokenizerFiles& files, const Json& config, const fs::path& folder) {
  const std::string config_name = (folder / "tokenizer_config.json").string();
  if (const Json* decoder = find(config, "added_tokens_decoder")) {
    if (!decoder->is_object()) throw Error(config_name + ": added_tokens_decoder: expected an object");
    for (const auto& [key, value] : decoder->items()) {
      const std::string where = config_name + ": added_tokens_decoder." + key.substr(0, 40);
      AddedToken token = read_added_token(value, where);
      token.id = parse_id(key, where);
      add_token(files, std::move(token), where);
    }
  }
  const fs::path legacy = folder / "added_tokens.json";
  const Json ids = read_object(legacy);
  for (const auto& [text, id] : ids.items()) {
    std::string where = legacy.string();
    where.append(": '").append(text).append("'");
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{kMaxId}) throw Error(where + ": expected an id");
    AddedToken token;
    token.text = text;
    token.id = id.get<int32_t>();
    token.normalized = true;
    if (text.empty()) throw Error(where + ": expected the text of a token");
    add_token(files, std::move(token), where);
  }
}

// One special token of tokenizer_config.json and special_tokens_map.json, which must agree.
std::optional<std::string> read_special(const Json& config, const Json& map, const char* key, const fs::path& folder,
                                        TokenizerFiles& files) {
  std::optional<std::string> text;
  for (const auto& [object, name] : {std::pair{&config, "tokenizer_config.json"}, {&map, "special_tokens_map.json"}}) {
    const Json* value = find(*object, key);
    if (value == nullptr) continue;
    const std::string where = (folder / name).string() + ": " + key;
    const std::string here = token_text(*value, where);
    if (value->is_object()) files.special_forms.try_emplace(here, read_added_token(*value, where));
    if (text && *text != here) {
      throw Error(where + ": '" + here + "' contradicts '" + *text + "' of tokenizer_config.json");
    }
    text = here;
  }
  return text;
}

}  // namespace

AddedToken read_added_token(const Json& token, const std::string& where) {
  if (!token.is_object()) throw Error(where + ": expected an object");
  AddedToken result;
  result.text = token_text(token, where);
  result.special = read_flag(token, "special", where).value_or(false);
  result.normalized = read_flag(token, "normalized", where).value_or(!result.special);
  result.lstrip = read_flag(token, "lstrip", where).value_or(false);
  result.rstrip = read_flag(token, "rstrip", where).value_or(false);
  result.single_word = read_flag(token, "single_word", where).value_or(false);
  return result;
}

AddedToken TokenizerFiles::special_token(const std::string& text) const {
  const auto form = special_forms.find(text);
  AddedToken token = form != special_forms.end() ? form->second : AddedToken{.text = text};
  token.normalized = false;
  return token;
}

TokenizerFiles read_tokenizer_files(const fs::path& folder) {
  const Json config = read_object(folder / "tokenizer_config.json");
  const Json map = read_object(folder / "special_tokens_map.json");
  const std::string config_name = (folder / "tokenizer_config.json").string();

  TokenizerFiles files;
  if (const Json* name = find(config, "tokenizer_class")) {
    if (!name->is_string()) throw Error(config_name + ": tokenizer_class: expected a name");
    files.tokenizer_class = name->get<std::string>();
  }
  if (const Json* count = find(config, "extra_ids")) {
    if (!count->is_number_unsigned() || count->get<uint64_t>() > kMostExtraIds) {
      throw Error(config_name + ": extra_ids: expected a number up to " + std::to_string(kMostExtraIds));
    }
    files.extra_ids = count->get<uint64_t>();
  }
  files.adds_bos = read_flag(config, "add_bos_token", config_name);
  files.adds_eos = read_flag(config, "add_eos_token", config_name);
  files.adds_prefix_space = read_flag(config, "add_prefix_space", config_name);
  if (read_flag(config, "split_special_tokens", config_name).value_or(false)) {
    throw Error(
        config_name + ": split_special_tokens: true keeps special tokens of every text as text, templates' among them",
        "remove it; split_special_tokens: true of a run keeps those as text that are said");
  }
  files.bos = read_special(config, map, "bos_token", folder, files);
  files.eos = read_special(config, map, "eos_token", folder, files);
  files.unk = read_special(config, map, "unk_token", folder, files);
  files.pad = read_special(config, map, "pad_token", folder, files);
  for (const Json* object : {&config, &map}) {
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const Json* list = find(*object, key);
      if (list == nullptr) continue;
      for (const auto& token : *list) files.other_special.push_back(token_text(token, folder.string() + ": " + key));
    }
  }
  read_added_tokens(files, config, folder);
  return files;
}

}  // namespace fathom::tokenizer
