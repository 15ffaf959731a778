// Formats by their keys.
#include "data/line.h"

#include <vector>

namespace fathom::data {
namespace {

using config::DatasetFormat;

struct KnownFormat {
  DatasetFormat format;
  std::string_view words;
  const char* first;
  const char* second;  // null: one key is enough
};

constexpr KnownFormat kFormats[] = {
    {DatasetFormat::kText, "text", "text", nullptr},
    {DatasetFormat::kPromptCompletion, "prompt and completion", "prompt", "completion"},
    {DatasetFormat::kTokenIds, "input_ids", "input_ids", nullptr},
    {DatasetFormat::kMessages, "messages", "messages", nullptr},
    {DatasetFormat::kShareGpt, "conversations", "conversations", nullptr},
    {DatasetFormat::kAlpaca, "instruction and output", "instruction", "output"},
};

// The parser counts lines of its text, which has but one: "file:7:1:18" is column 18 of line 7.
Json parse_line(std::string_view text, const std::string& where) {
  try {
    return parse_json(text, where);
  } catch (const Error& error) {
    const std::string message = error.what(), first_line = where + ":1:";
    throw Error(message.starts_with(first_line) ? where + ":" + message.substr(first_line.size()) : message);
  }
}

}  // namespace

Line::Line(std::string_view text, const std::string& where) : value(parse_line(text, where)), where(where) {
  if (!value.is_object()) fail(std::string("expected an object, got ") + value.type_name());
}

void Line::fail(const std::string& what, const std::string& remedy) const { throw Error(where + ": " + what, remedy); }

const std::string& Line::text(const char* key) const {
  const auto found = value.find(key);
  if (found == value.end()) fail(std::string("has no ") + key);
  if (!found->is_string()) fail(std::string(key) + ": expected text, got " + found->type_name());
  return found->get_ref<const std::string&>();
}

std::string_view describe(DatasetFormat format) {
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
  if (found.empty()) line.fail("has the keys of no format that can be read", "these are: " + all);
  if (found.size() > 1) {
    line.fail("mixes " + std::string(found[0]->words) + " with " + std::string(found[1]->words),
              "name what is meant with dataset_format, or remove the other keys");
  }
  const KnownFormat& known = *found[0];
  if (known.second != nullptr && !line.value.contains(known.first)) {
    line.fail("has " + std::string(known.second) + " but no " + known.first);
  }
  if (known.second != nullptr && !line.value.contains(known.second)) {
    line.fail("has " + std::string(known.first) + " but no " + known.second);
  }
  return known.format;
}

}  // namespace fathom::data
