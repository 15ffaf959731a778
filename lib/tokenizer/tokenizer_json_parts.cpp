// Each part as Hugging Face's tokenizers write it; a Sequence is read in order.
#include "tokenizer/tokenizer_json_parts.h"

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/json_part.h"

namespace fathom::tokenizer {
namespace {

int32_t read_id(const Json* value, const std::string& where) {
  if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() > INT32_MAX) {
    throw Error(where + ": expected the id of a token");
  }
  return value->get<int32_t>();
}

// The one id that a special token of a template stands for.
int32_t template_id(const Json& part, const Json& item, const std::string& where) {
  const Json* name = find_key(item, "id");
  if (name != nullptr && name->is_string()) {
    const Json* tokens = find_key(part, "special_tokens");
    const Json* token = tokens == nullptr ? nullptr : find_key(*tokens, name->get_ref<const std::string&>().c_str());
    const Json* ids = token == nullptr ? nullptr : find_key(*token, "ids");
    if (ids != nullptr && ids->is_array() && ids->size() == 1) return read_id(&(*ids)[0], where);
  }
  throw Error(where + ": expected the name of one of special_tokens, with one id");
}

void read_template(const Json& part, const std::string& where, Affixes& affixes) {
  bool text_seen = false;
  for (const Json& item : list_of(part, "single", where)) {
    if (find_key(item, "Sequence") != nullptr && !text_seen) {
      text_seen = true;
      continue;
    }
    const Json* special = find_key(item, "SpecialToken");
    std::optional<int32_t>& affix = text_seen ? affixes.after : affixes.before;
    if (special == nullptr || affix) {
      throw Error(where + ".single: expected one text with at most one special token on either side");
    }
    affix = template_id(part, *special, where + ".single");
  }
  if (!text_seen) throw Error(where + ".single: has no place for the text");
}

// {"sep": ["</s>", 2], "cls": ["<s>", 0], …}
void read_classes(const Json& part, const std::string& where, Affixes& affixes) {
  const auto read = [&](const char* key, std::optional<int32_t>& affix) {
    const Json& token = list_of(part, key, where);
    if (token.size() != 2) throw Error(where + "." + key + ": expected a token and its id");
    if (affix) throw Error(where + ": expected at most one special token on either side");
    affix = read_id(&token[1], where + "." + key);
  };
  read("cls", affixes.before);
  read("sep", affixes.after);
}

void read_affixes_part(const Json& part, const std::string& where, Affixes& affixes) {
  const std::string type = type_of(part, where);
  if (type == "TemplateProcessing") return read_template(part, where, affixes);
  if (type == "RobertaProcessing" || type == "BertProcessing") return read_classes(part, where, affixes);
  if (type == "ByteLevel") return;  // trims offsets, no more
  if (type != "Sequence") {
    reject_type(where, type, "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence, none");
  }
  const Json& parts = list_of(part, "processors", where);
  for (size_t i = 0; i < parts.size(); ++i) {
    read_affixes_part(parts[i], where + ".processors[" + std::to_string(i) + "]", affixes);
  }
}

}  // namespace

Affixes read_affixes(const Json& json, const std::string& file) {
  Affixes affixes;
  if (const Json* processor = find_key(json, "post_processor")) {
    read_affixes_part(*processor, file + ": post_processor", affixes);
  }
  return affixes;
}

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& file) {
  std::vector<AddedToken> tokens;
  if (find_key(json, "added_tokens") == nullptr) return tokens;
  const Json& list = json.at("added_tokens");
  if (!list.is_array()) throw Error(file + ": added_tokens: expected a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = file + ": added_tokens[" + std::to_string(i) + "]";
    AddedToken& token = tokens.emplace_back(read_added_token(list[i], where));
    token.id = read_id(find_key(list[i], "id"), where + ".id");
  }
  return tokens;
}

}  // namespace fathom::tokenizer
