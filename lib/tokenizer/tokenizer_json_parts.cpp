// Each part as Hugging Face's tokenizers write it; a Sequence is read in order.
#include "tokenizer/tokenizer_json_parts.h"

#include "base/error.h"

namespace fathom::tokenizer {
namespace {

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string type_of(const Json& part, const std::string& where) {
  const Json* type = find(part, "type");
  if (type == nullptr || !type->is_string()) throw Error(where + ": expected an object with a type");
  return type->get<std::string>();
}

[[noreturn]] void refuse(const std::string& where, const std::string& type, const std::string& supported) {
  throw Error(where + ".type: '" + type.substr(0, 80) + "' is not supported", "those that are: " + supported);
}

const Json& list_of(const Json& part, const char* key, const std::string& where) {
  const Json* list = find(part, key);
  if (list == nullptr || !list->is_array()) throw Error(where + "." + key + ": expected a list");
  return *list;
}

int32_t read_id(const Json* value, const std::string& where) {
  if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() > INT32_MAX) {
    throw Error(where + ": expected the id of a token");
  }
  return value->get<int32_t>();
}

bool reads_composed_part(const Json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (type == "NFC") return true;
  if (type != "Sequence") refuse(where, type, "NFC, Sequence, none");
  bool composed = false;
  const Json& parts = list_of(part, "normalizers", where);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool here = reads_composed_part(parts[i], where + ".normalizers[" + std::to_string(i) + "]");
    composed = composed || here;
  }
  return composed;
}

// The one id that a special token of a template stands for.
int32_t template_id(const Json& part, const Json& item, const std::string& where) {
  const Json* name = find(item, "id");
  if (name != nullptr && name->is_string()) {
    const Json* tokens = find(part, "special_tokens");
    const Json* token = tokens == nullptr ? nullptr : find(*tokens, name->get_ref<const std::string&>().c_str());
    const Json* ids = token == nullptr ? nullptr : find(*token, "ids");
    if (ids != nullptr && ids->is_array() && ids->size() == 1) return read_id(&(*ids)[0], where);
  }
  throw Error(where + ": expected the name of one of special_tokens, with one id");
}

void read_template(const Json& part, const std::string& where, Affixes& affixes) {
  bool text_seen = false;
  for (const Json& item : list_of(part, "single", where)) {
    if (find(item, "Sequence") != nullptr && !text_seen) {
      text_seen = true;
      continue;
    }
    const Json* special = find(item, "SpecialToken");
    std::optional<int32_t>& affix = text_seen ? affixes.after : affixes.before;
    if (special == nullptr || affix) {
      throw Error(where + ".single: expected one text with at most one special token on either side");
    }
    affix = template_id(part, *special, where + ".single");
  }
  if (!text_seen) throw Error(where + ".single: has no place for the text");
}

void read_affixes_part(const Json& part, const std::string& where, Affixes& affixes) {
  const std::string type = type_of(part, where);
  if (type == "TemplateProcessing") return read_template(part, where, affixes);
  if (type == "ByteLevel") return;  // trims offsets, no more
  if (type != "Sequence") refuse(where, type, "ByteLevel, TemplateProcessing, Sequence, none");
  const Json& parts = list_of(part, "processors", where);
  for (size_t i = 0; i < parts.size(); ++i) {
    read_affixes_part(parts[i], where + ".processors[" + std::to_string(i) + "]", affixes);
  }
}

}  // namespace

bool reads_composed(const Json& json, const std::string& file) {
  const Json* normalizer = find(json, "normalizer");
  return normalizer != nullptr && reads_composed_part(*normalizer, file + ": normalizer");
}

void check_decoder(const Json& json, const std::string& file) {
  const std::string where = file + ": decoder";
  const Json* decoder = find(json, "decoder");
  if (decoder == nullptr) throw Error(where + ": expected ByteLevel");
  const std::string type = type_of(*decoder, where);
  if (type != "ByteLevel") refuse(where, type, "ByteLevel");
}

Affixes read_affixes(const Json& json, const std::string& file) {
  Affixes affixes;
  if (const Json* processor = find(json, "post_processor")) {
    read_affixes_part(*processor, file + ": post_processor", affixes);
  }
  return affixes;
}

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& file) {
  std::vector<AddedToken> tokens;
  if (find(json, "added_tokens") == nullptr) return tokens;
  const Json& list = json.at("added_tokens");
  if (!list.is_array()) throw Error(file + ": added_tokens: expected a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = file + ": added_tokens[" + std::to_string(i) + "]";
    AddedToken& token = tokens.emplace_back(read_added_token(list[i], where));
    token.id = read_id(find(list[i], "id"), where + ".id");
  }
  return tokens;
}

}  // namespace fathom::tokenizer
