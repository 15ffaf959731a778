// Reads JSON lines into token ids and labels; whatever is wrong is told with file and line.
#include "data/dataset.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace fathom::data {
namespace {

enum class Kind { kText, kPromptCompletion, kTokens };

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kPromptCompletion:
      return "prompt and completion";
    case Kind::kTokens:
      return "input_ids";
  }
  return "";
}

// One line with its place in the file, so that each complaint says where.
struct Line {
  const Json& value;
  std::string where;  // "file:line"

  [[noreturn]] void fail(const std::string& what, const std::string& remedy = "") const {
    throw Error(where + ": " + what, remedy);
  }
  const std::string& text(const char* key) const {
    const Json& found = value[key];
    if (!found.is_string()) fail(std::string(key) + ": expected text, got " + found.type_name());
    return found.get_ref<const std::string&>();
  }
};

Kind kind_of(const Line& line) {
  const Json& value = line.value;
  const bool text = value.contains("text"), tokens = value.contains("input_ids");
  const bool prompt = value.contains("prompt"), completion = value.contains("completion");
  if (prompt != completion) line.fail(prompt ? "has a prompt but no completion" : "has a completion but no prompt");
  if (text + tokens + prompt > 1) line.fail("mixes text, prompt/completion and input_ids: expected one of them");
  if (text) return Kind::kText;
  if (prompt) return Kind::kPromptCompletion;
  if (tokens) return Kind::kTokens;
  line.fail("has neither text, nor prompt and completion, nor input_ids",
            "These three kinds of lines are the ones that can be read.");
}

std::vector<int32_t> read_integers(const Line& line, const char* key) {
  const Json& list = line.value[key];
  if (!list.is_array()) line.fail(std::string(key) + ": expected a list of whole numbers, got " + list.type_name());
  std::vector<int32_t> numbers;
  numbers.reserve(list.size());
  for (const Json& item : list) {
    const bool whole = item.is_number_integer() && (!item.is_number_unsigned() || item.get<uint64_t>() <= INT32_MAX);
    if (!whole || item.get<int64_t>() < INT32_MIN) {
      line.fail(std::string(key) + ": expected whole numbers, got " + item.dump().substr(0, 40));
    }
    numbers.push_back(item.get<int32_t>());
  }
  return numbers;
}

Example read_tokens(const Line& line) {
  Example example;
  example.ids = read_integers(line, "input_ids");
  if (example.ids.empty()) line.fail("input_ids is empty");
  if (!line.value.contains("labels")) {
    example.labels = example.ids;
    return example;
  }
  example.labels = read_integers(line, "labels");
  if (example.labels.size() != example.ids.size()) {
    line.fail("labels has " + std::to_string(example.labels.size()) + " entries, input_ids " +
              std::to_string(example.ids.size()));
  }
  return example;
}

std::vector<int32_t> encode(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  const bool present = !ids.empty() && tokenizer.bos_id && ids.front() == *tokenizer.bos_id;
  if (tokenizer.adds_bos && tokenizer.bos_id && !present) ids.insert(ids.begin(), *tokenizer.bos_id);
  return ids;
}

// BOS in front, EOS behind unless it is there.
Example tokenize(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  Example example;
  example.ids = encode(tokenizer, text);
  const bool ended = !example.ids.empty() && tokenizer.eos_id && example.ids.back() == *tokenizer.eos_id;
  if (tokenizer.eos_id && !ended) example.ids.push_back(*tokenizer.eos_id);
  example.labels = example.ids;
  return example;
}

// Prompt and completion are tokenized together, since that is how a model reads them. The tokens of the prompt are
// those that it shares, from the front, with the prompt tokenized alone: a token across the border belongs to the
// completion.
Example read_prompt_completion(const Line& line, const tokenizer::Tokenizer& tokenizer, bool completion_only) {
  const std::string& prompt = line.text("prompt");
  Example example = tokenize(tokenizer, prompt + line.text("completion"));
  if (!completion_only) return example;
  const std::vector<int32_t> alone = encode(tokenizer, prompt);
  const auto border = std::mismatch(alone.begin(), alone.end(), example.ids.begin(), example.ids.end()).second;
  std::fill(example.labels.begin(), example.labels.begin() + (border - example.ids.begin()),
            static_cast<int32_t>(kIgnored));
  return example;
}

void check_ids(const Line& line, const Example& example, int64_t vocabulary_size) {
  const int64_t limit = vocabulary_size > 0 ? vocabulary_size : int64_t{std::numeric_limits<int32_t>::max()} + 1;
  for (int32_t id : example.ids) {
    if (id >= 0 && id < limit) continue;
    line.fail("token id " + std::to_string(id) + " is outside the model's vocabulary of " + std::to_string(limit));
  }
  for (int32_t label : example.labels) {
    if (label == kIgnored || (label >= 0 && label < limit)) continue;
    line.fail("label " + std::to_string(label) + " is neither -100 nor inside the model's vocabulary of " +
              std::to_string(limit));
  }
}

// Cuts the example and keeps it if a target is left.
void add(Dataset& dataset, Example example, int64_t max_length) {
  const auto limit = static_cast<size_t>(max_length);
  if (example.ids.size() > limit) {
    example.ids.resize(limit);
    example.labels.resize(limit);
    ++dataset.truncated;
  }
  // The first label is never a target: no token comes before it.
  const auto later = example.labels.begin() + std::min<int64_t>(1, static_cast<int64_t>(example.labels.size()));
  const bool has_target = std::any_of(later, example.labels.end(), [](int32_t label) { return label != kIgnored; });
  if (!has_target) {
    ++dataset.without_target;
    return;
  }
  example.ids.shrink_to_fit();
  example.labels.shrink_to_fit();
  dataset.examples.push_back(std::move(example));
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const tokenizer::Tokenizer* tokenizer, const DatasetOptions& options)
      : file_(file), tokenizer_(tokenizer), options_(options) {}

  void read_line(std::string_view text, int64_t number) {
    const std::string where = file_.string() + ":" + std::to_string(number);
    const Json value = parse_json(text, where);
    const Line line{value, where};
    if (!value.is_object()) line.fail(std::string("expected an object, got ") + value.type_name());
    const Kind kind = kind_of(line);
    if (!kind_) kind_ = kind;
    if (kind != *kind_) {
      line.fail(std::string("is a line of ") + describe(kind) + ", earlier lines are of " + describe(*kind_));
    }
    Example example = read_example(line, kind);
    check_ids(line, example, options_.vocabulary_size);
    add(dataset_, std::move(example), options_.max_length);
  }

  Dataset finish() {
    if (!kind_) throw Error(file_.string() + ": holds no examples");
    if (dataset_.examples.empty()) {
      throw Error(file_.string() + ": no example has a token to learn", "Raise max_length or look at the labels.");
    }
    return std::move(dataset_);
  }

 private:
  Example read_example(const Line& line, Kind kind) const {
    if (kind == Kind::kTokens) {
      if (options_.completion_only_loss == true && !line.value.contains("labels")) {
        line.fail("completion_only_loss: true, but input_ids has no labels that say what the completion is");
      }
      return read_tokens(line);
    }
    if (tokenizer_ == nullptr) line.fail("needs a tokenizer, and the model's folder has none");
    if (kind == Kind::kPromptCompletion) {
      return read_prompt_completion(line, *tokenizer_, options_.completion_only_loss.value_or(true));
    }
    if (options_.completion_only_loss == true) {
      line.fail("completion_only_loss: true, but a line of text has no completion");
    }
    return tokenize(*tokenizer_, line.text("text"));
  }

  std::filesystem::path file_;
  const tokenizer::Tokenizer* tokenizer_;
  DatasetOptions options_;
  std::optional<Kind> kind_;
  Dataset dataset_;
};

}  // namespace

Dataset read_dataset(const std::filesystem::path& file, const tokenizer::Tokenizer* tokenizer,
                     const DatasetOptions& options) {
  if (options.max_length < 1) throw Error("max_length: expected at least 1");
  const MappedFile mapped(file);
  const std::string_view content(reinterpret_cast<const char*>(mapped.data()), mapped.size());
  Reader reader(file, tokenizer, options);
  int64_t number = 0;
  for (size_t start = 0; start < content.size();) {
    const size_t end = std::min(content.find('\n', start), content.size());
    const std::string_view line = content.substr(start, end - start);
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) reader.read_line(line, number);
    start = end + 1;
  }
  return reader.finish();
}

Dataset cut(const Dataset& dataset, int64_t max_length) {
  Dataset result;
  result.truncated = dataset.truncated;
  result.without_target = dataset.without_target;
  for (const Example& example : dataset.examples) add(result, example, max_length);
  return result;
}

std::string fingerprint(const Dataset& dataset) {
  Hasher hasher;
  for (const Example& example : dataset.examples) {
    const uint64_t length = example.ids.size();
    hasher.update(&length, sizeof length);
    hasher.update(example.ids.data(), length * sizeof(int32_t));
    hasher.update(example.labels.data(), length * sizeof(int32_t));
  }
  return hasher.digest();
}

}  // namespace fathom::data
