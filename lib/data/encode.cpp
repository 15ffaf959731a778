// Texts, prompts and conversations to ids, and which of them count for the loss.
#include "data/encode.h"

#include <algorithm>
#include <limits>

#include "chat/border.h"
#include "data/conversation.h"
#include "data/prompt_form.h"
#include "jinja/meter.h"

namespace fathom::data {
namespace {

using chat::ByteRange;
using config::DatasetFormat;
using tokenizer::Tokenizer;

std::vector<int32_t> read_integers(const Line& line, const char* key) {
  if (!line.value.contains(key)) line.fail(std::string("has no ") + key);
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

Example read_tokens(const Line& line, bool needs_labels) {
  Example example;
  example.ids = read_integers(line, "input_ids");
  if (example.ids.empty()) line.fail("input_ids is empty");
  if (!line.value.contains("labels")) {
    if (needs_labels) line.fail("completion_only_loss: true, but input_ids has no labels that say what it is");
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

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  const bool present = !ids.empty() && tokenizer.bos_id && ids.front() == *tokenizer.bos_id;
  if (tokenizer.adds_bos && tokenizer.bos_id && !present) ids.insert(ids.begin(), *tokenizer.bos_id);
  return ids;
}

// BOS in front, EOS behind unless it is there.
Example encode_text(const Tokenizer& tokenizer, std::string_view text) {
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
Example encode_prompt_completion(const Tokenizer& tokenizer, const std::string& prompt, const std::string& completion,
                                 bool completion_only) {
  Example example = encode_text(tokenizer, prompt + completion);
  if (!completion_only) return example;
  const std::vector<int32_t> alone = encode(tokenizer, prompt);
  const auto border = std::mismatch(alone.begin(), alone.end(), example.ids.begin(), example.ids.end()).second;
  std::fill(example.labels.begin(), example.labels.begin() + (border - example.ids.begin()),
            static_cast<int32_t>(kIgnored));
  return example;
}

// The template writes BOS and ends of turns itself. A token counts if one of its bytes lies in a range.
Example encode_ranges(const Tokenizer& tokenizer, const std::string& text, const std::vector<ByteRange>& ranges) {
  tokenizer::Encoding encoding = tokenizer.encode_with_offsets(text);
  Example example;
  example.ids = std::move(encoding.ids);
  example.labels.assign(example.ids.size(), static_cast<int32_t>(kIgnored));
  size_t range = 0;
  for (size_t i = 0; i < example.ids.size(); ++i) {
    const int64_t begin = encoding.begins[i];
    const int64_t next = i + 1 < example.ids.size() ? encoding.begins[i + 1] : static_cast<int64_t>(text.size());
    while (range < ranges.size() && ranges[range].end <= begin) ++range;
    const bool counts = range < ranges.size() && ranges[range].begin < std::max(next, begin + 1);
    if (counts) example.labels[i] = example.ids[i];
  }
  return example;
}

Example encode_all(const Tokenizer& tokenizer, const std::string& text) {
  Example example;
  example.ids = tokenizer.encode(text);
  example.labels = example.ids;
  return example;
}

struct Pair {
  std::vector<int32_t> source, target;
};

// labels that are padded end with kIgnored.
Pair read_token_pair(const Line& line) {
  if (!line.value.contains("labels")) line.fail("has input_ids but no labels, which are what the model shall answer");
  Pair pair{read_integers(line, "input_ids"), read_integers(line, "labels")};
  while (!pair.target.empty() && pair.target.back() == kIgnored) pair.target.pop_back();
  if (pair.source.empty()) line.fail("input_ids is empty");
  if (pair.target.empty()) line.fail("labels is empty");
  if (std::find(pair.target.begin(), pair.target.end(), kIgnored) != pair.target.end()) {
    line.fail("labels has -100 between tokens, but every token of a target is learned here");
  }
  return pair;
}

// Cut on the right; the token that ends a source stays, as tokenizers cut it.
int64_t cut(std::vector<int32_t>& ids, int64_t length, const std::optional<int32_t>& end) {
  const int64_t lost = std::max<int64_t>(0, std::ssize(ids) - length);
  if (lost == 0) return 0;
  const bool ended = end && ids.back() == *end;
  ids.resize(static_cast<size_t>(length));
  if (ended) ids.back() = *end;
  return lost;
}

class LineEncoder {
 public:
  LineEncoder(const Line& line, const Encoders& encoders, const DatasetOptions& options)
      : line_(line), encoders_(encoders), options_(options) {}

  Example encode(DatasetFormat format) const {
    switch (format) {
      case DatasetFormat::kAuto:
        break;  // has been resolved
      case DatasetFormat::kTokenIds:
        refuse_assistant_only();
        return read_tokens(line_, options_.completion_only_loss == true);
      case DatasetFormat::kText:
        refuse_assistant_only();
        refuse_completion_only("a line of text");
        return encode_text(tokenizer(), line_.text("text"));
      case DatasetFormat::kPromptCompletion:
        return encode_prompt_and_completion();
      case DatasetFormat::kAlpaca:
        return encode_alpaca();
      case DatasetFormat::kMessages:
        return encode_conversation(read_messages(line_));
      case DatasetFormat::kShareGpt:
        return encode_conversation(read_sharegpt(line_));
    }
    throw Error("the format of " + line_.where + " is not known");
  }

  Pair encode_pair(DatasetFormat format) const {
    if (options_.completion_only_loss == false) {
      line_.fail("completion_only_loss: false, but a decoder learns what answers the source alone", "remove it");
    }
    switch (format) {
      case DatasetFormat::kTokenIds:
        refuse_assistant_only();
        return read_token_pair(line_);
      case DatasetFormat::kAlpaca:
        refuse_assistant_only();
        return pair_of(alpaca_question(), line_.text("output"));
      case DatasetFormat::kPromptCompletion:
        if (!is_conversation(line_, format)) {
          refuse_assistant_only();
          return pair_of(line_.text("prompt"), line_.text("completion"));
        }
        [[fallthrough]];
      default:
        line_.fail("is " + std::string(describe(format)) + ", but an encoder and decoder learns sources and targets",
                   "write prompt and completion as texts, or input_ids and labels");
    }
  }

 private:
  Pair pair_of(const std::string& source, const std::string& target) const {
    return {encode_text(tokenizer(), source).ids, encode_text(tokenizer(), target).ids};
  }
  bool completion_only() const { return options_.completion_only_loss.value_or(true); }
  const Tokenizer& tokenizer() const {
    if (encoders_.tokenizer != nullptr) return *encoders_.tokenizer;
    throw EveryLineFails(line_.where + ": needs a tokenizer, and the model's folder has none");
  }
  const chat::ChatTemplate& chat_template() const {
    if (encoders_.chat != nullptr) return *encoders_.chat;
    throw EveryLineFails(line_.where + ": is a conversation, and there is no chat template for it",
                         "take the instruction-tuned model's tokenizer files, add a chat_template.jinja, or write "
                         "prompts and completions as texts");
  }
  void refuse_completion_only(const char* what) const {
    if (options_.completion_only_loss == true) {
      line_.fail(std::string("completion_only_loss: true, but ") + what + " has no completion");
    }
  }
  void refuse_assistant_only() const {
    if (options_.assistant_only_loss) {
      line_.fail("assistant_only_loss: true, but the line is no conversation", "remove it");
    }
  }

  Example encode_conversation(const Conversation& conversation) const {
    refuse_completion_only("a conversation");
    const chat::ChatTemplate& chat = chat_template();
    if (options_.assistant_only_loss) {
      const chat::RenderedChat rendered =
          render([&] { return chat.render_with_assistant(conversation.messages, conversation.variables); });
      return encode_ranges(tokenizer(), rendered.text, rendered.assistant);
    }
    return encode_all(tokenizer(),
                      render([&] { return chat.render(conversation.messages, false, conversation.variables); }).text);
  }

  // The prompt ends where the template would have the model go on; what both renderings share is the prompt, since
  // some templates write more after the prompt alone.
  Example encode_conversational_completion() const {
    const Conversation prompt = read_messages(line_, "prompt"), completion = read_messages(line_, "completion");
    const chat::ChatTemplate& chat = chat_template();
    Json all = prompt.messages;
    for (const Json& message : completion.messages) all.push_back(message);
    if (options_.assistant_only_loss) return encode_conversation({all, prompt.variables});
    const std::string whole = render([&] { return chat.render(all, false, prompt.variables); }).text;
    if (!completion_only()) return encode_all(tokenizer(), whole);
    const bool generates = prompt.messages.back()["role"] != "assistant";
    const std::string start = render([&] { return chat.render(prompt.messages, generates, prompt.variables); }).text;
    const auto border = static_cast<int64_t>(chat::end_of_prompt(start, whole));
    return encode_ranges(tokenizer(), whole, {{border, static_cast<int64_t>(whole.size())}});
  }

  Example encode_prompt_and_completion() const {
    for (const char* key : {"prompt", "completion"}) {
      if (!line_.value.contains(key)) line_.fail(std::string("has no ") + key);
    }
    if (is_conversation(line_, DatasetFormat::kPromptCompletion)) return encode_conversational_completion();
    refuse_assistant_only();
    return encode_prompt_completion(tokenizer(), line_.text("prompt"), line_.text("completion"), completion_only());
  }

  std::string alpaca_question() const {
    if (const auto history = line_.value.find("history"); history != line_.value.end() && !history->empty()) {
      line_.fail("history: alpaca's lines are single questions here", "write the turns as messages");
    }
    const auto input = line_.value.find("input");
    const bool has_input = input != line_.value.end() && !input->is_null();
    return alpaca_prompt(line_.text("instruction"), has_input ? line_.text("input") : std::string());
  }

  Example encode_alpaca() const {
    refuse_assistant_only();
    return encode_prompt_completion(tokenizer(), alpaca_question(), line_.text("output"), completion_only());
  }

  // What the template raises is told with the line.
  template <typename Render>
  chat::RenderedChat render(const Render& render) const {
    try {
      return render();
    } catch (const jinja::BoundPassed& error) {
      throw EveryLineFails(line_.where + ": " + error.what());
    } catch (const Error& error) {
      line_.fail(error.what());
    }
  }

  const Line& line_;
  const Encoders& encoders_;
  const DatasetOptions& options_;
};

void check_ids(const Line& line, const Example& example, int64_t vocabulary_size) {
  constexpr size_t kLongest = INT32_MAX / 2;  // ids and labels of an example are counted in 32 bits
  const int64_t limit = vocabulary_size > 0 ? vocabulary_size : int64_t{std::numeric_limits<int32_t>::max()} + 1;
  if (example.ids.size() > kLongest) line.fail("is longer than " + std::to_string(kLongest) + " tokens");
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

}  // namespace

bool is_conversation(const Line& line, DatasetFormat format) {
  if (format == DatasetFormat::kMessages || format == DatasetFormat::kShareGpt) return true;
  const auto prompt = line.value.find("prompt");
  return format == DatasetFormat::kPromptCompletion && prompt != line.value.end() && prompt->is_array();
}

Example encode_line(const Line& line, DatasetFormat format, const Encoders& encoders, const DatasetOptions& options) {
  Example example = LineEncoder(line, encoders, options).encode(format);
  check_ids(line, example, options.vocabulary_size);
  return example;
}

Example encode_pair(const Line& line, DatasetFormat format, const Encoders& encoders, const DatasetOptions& options,
                    Truncation& truncation) {
  Pair pair = LineEncoder(line, encoders, options).encode_pair(format);
  if (pair.source.empty() || pair.target.empty()) {
    line.fail(std::string("its ") + (pair.source.empty() ? "source" : "target") + " has no token",
              "write what is asked and what is to be answered");
  }
  const std::optional<int32_t> end = encoders.tokenizer != nullptr ? encoders.tokenizer->eos_id : std::nullopt;
  const int64_t of_source = cut(pair.source, options.max_length, end);
  const int64_t of_target = cut(pair.target, options.max_target_length, std::nullopt);
  if (of_source + of_target > 0) truncation.add({1, of_source + of_target, of_target, 0});
  Example example;
  example.labels.assign(pair.source.size(), static_cast<int32_t>(kIgnored));
  example.labels.insert(example.labels.end(), pair.target.begin(), pair.target.end());
  example.ids = std::move(pair.source);
  example.ids.insert(example.ids.end(), pair.target.begin(), pair.target.end());
  check_ids(line, example, options.vocabulary_size);
  return example;
}

}  // namespace fathom::data
