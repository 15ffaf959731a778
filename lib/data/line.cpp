// Formats by their keys.
#include "data/line.h"

#include <cmath>
#include <vector>

#include "base/json_value.h"

namespace fathom::data {
namespace {

using config::DatasetFormat;

struct KnownFormat {
  DatasetFormat format;
  std::string_view words;
  const char* first;
  const char* second;  // null: one key is enough
  bool is_whole_in(const Line& line) const {
    return line.value.contains(first) && (second == nullptr || line.value.contains(second));
  }
};

constexpr std::string_view kPreferenceWords = "prompt, chosen and rejected";
constexpr KnownFormat kFormats[] = {
    {DatasetFormat::kText, "text", "text", nullptr},
    {DatasetFormat::kPromptCompletion, "prompt and completion", "prompt", "completion"},
    {DatasetFormat::kTokenIds, "input_ids", "input_ids", nullptr},
    {DatasetFormat::kMessages, "messages", "messages", nullptr},
    {DatasetFormat::kShareGpt, "conversations", "conversations", nullptr},
    {DatasetFormat::kAlpaca, "instruction and output", "instruction", "output"},
};

// Keys of other tools' data, and the filter of jq that gives them ours; empty: there is none.
struct OtherKeys {
  const char* first;
  const char* second;
  std::string_view filter;
};

constexpr OtherKeys kOtherKeys[] = {
    {"question", "answer", "{prompt: .question, completion: .answer}"},
    {"question", "response", "{prompt: .question, completion: .response}"},
    {"query", "response", "{prompt: .query, completion: .response}"},
    {"prompt", "response", "{prompt, completion: .response}"},
    {"prompt", "answer", "{prompt, completion: .answer}"},
    {"instruction", "response", "{instruction, input: .context, output: .response}"},
    {"instruction", "completion", "{prompt: .instruction, completion}"},
    {"input", "output", "{prompt: .input, completion: .output}"},
    {"content", "content", "{text: .content}"},
    {"dialog", "dialog", "{messages: .dialog}"},
    {"conversation", "conversation", "{messages: .conversation}"},
};

void refuse_other_keys(const Line& line) {
  for (const OtherKeys& other : kOtherKeys) {
    if (!line.value.contains(other.first) || !line.value.contains(other.second)) continue;
    const bool is_one = other.first == std::string_view(other.second);
    line.fail("has " + std::string(other.first) + (is_one ? "" : " and " + std::string(other.second)) +
                  ", the keys of no format that can be read",
              "rename them: jq -c '" + std::string(other.filter) + "' OLD > NEW");
  }
}

// The parser counts lines of its text, which has but one: "file:7:1:18" is column 18 of line 7.
Json parse_line(std::string_view text, const std::string& where) {
  try {
    return parse_json(text, where);
  } catch (const Error& error) {
    const std::string message = error.what(), first_line = where + ":1:";
    const bool encoded = message.find("UTF-8") != std::string::npos;
    throw Error(message.starts_with(first_line) ? where + ":" + message.substr(first_line.size()) : message,
                encoded ? "convert the file from its encoding: iconv -f ISO-8859-1 -t UTF-8 OLD > NEW" : "");
  }
}

}  // namespace

Line::Line(std::string_view text, const std::string& where) : value(parse_line(text, where)), where(where) {
  if (!value.is_object()) fail("expected an object, got " + kind_of(value));
}

void Line::fail(const std::string& what, const std::string& remedy) const { throw Error(where + ": " + what, remedy); }

std::string kind_of(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return (std::isnan(value.get<double>()) ? "NaN" : "Infinity") + std::string(", which is not JSON");
  }
  return value.type_name();
}

const std::string& Line::text(const char* key) const {
  const auto found = value.find(key);
  if (found == value.end()) fail(std::string("has no ") + key);
  if (!found->is_string()) fail(std::string(key) + ": expected text, got " + kind_of(*found));
  return found->get_ref<const std::string&>();
}

std::string_view describe(DatasetFormat format) {
  if (format == DatasetFormat::kPreference) return kPreferenceWords;
  for (const KnownFormat& known : kFormats) {
    if (known.format == format) return known.words;
  }
  return "";
}

DatasetFormat recognise(const Line& line) {
  std::vector<const KnownFormat*> found;
  std::string all;
  for (const KnownFormat& known : kFormats) {
    all.append(all.empty() ? "" : "; ").append(known.words);
    const bool first = line.value.contains(known.first);
    const bool second = known.second != nullptr && line.value.contains(known.second);
    if (known.second == nullptr ? first : first || second) found.push_back(&known);
  }
  const bool is_whole = found.size() == 1 && found[0]->is_whole_in(line);
  if (!is_whole && line.value.contains("chosen") && line.value.contains("rejected")) {
    if (line.value.contains("prompt")) return DatasetFormat::kPreference;
    line.fail("is preference data (chosen, rejected) without a prompt",
              "write what both answers begin with as prompt, and what is left of them as chosen and rejected");
  }
  const auto label = line.value.find("label");
  if (label != line.value.end() && label->is_boolean() && line.value.contains("completion")) {
    line.fail("is preference data (completion, label), and there is no KTO or the like here",
              "write the good answers alone, as completion beside their prompt or as messages");
  }
  if (!is_whole && found.size() < 2) refuse_other_keys(line);
  if (found.empty())
    line.fail("has the keys of no format that can be read", "these are: " + all + "; " + std::string(kPreferenceWords));
  if (found.size() > 1) {
    line.fail("mixes " + std::string(found[0]->words) + " with " + std::string(found[1]->words),
              "name what is meant with dataset_format, or remove the other keys");
  }
  const KnownFormat& known = *found[0];
  if (!is_whole) {
    const bool first = line.value.contains(known.first);
    line.fail(
        std::string("has ") + (first ? known.first : known.second) + " but no " + (first ? known.second : known.first),
        "name what the lines hold with dataset_format, or add the key");
  }
  return known.format;
}

}  // namespace fathom::data
