// Texts, prompts and conversations to ids, and which of them count for the loss.
#include "data/encode.h"

#include <algorithm>
#include <limits>

#include "base/json_value.h"
#include "data/conversation.h"
#include "data/encode_conversation.h"
#include "data/line_keys.h"
#include "data/prompt_form.h"
#include "data/token_ids.h"
#include "data/written.h"

namespace fathom::data {
namespace {

using config::DatasetFormat;
using tokenizer::Tokenizer;

// What texts become: special tokens in them found, or not.
class TextEncoder {
 public:
  TextEncoder(const Line& line, const Tokenizer& tokenizer, const DatasetOptions& options, LineNotes& notes)
      : line_(line), tokenizer_(tokenizer), splits_(options.split_special_tokens), notes_(notes) {}

  // BOS in front.
  std::vector<int32_t> encode(std::string_view text) const {
    std::vector<int32_t> ids = encode_words(text);
    const bool present = !splits_ && !ids.empty() && tokenizer_.bos_id && ids.front() == *tokenizer_.bos_id;
    if (tokenizer_.adds_bos && tokenizer_.bos_id && !present) ids.insert(ids.begin(), *tokenizer_.bos_id);
    return ids;
  }

  // EOS behind, unless it is there.
  Example encode_example(std::string_view text) const {
    Example example;
    example.ids = encode(text);
    const bool ended = !example.ids.empty() && tokenizer_.eos_id && example.ids.back() == *tokenizer_.eos_id;
    if (tokenizer_.eos_id && !ended) example.ids.push_back(*tokenizer_.eos_id);
    example.labels = example.ids;
    return example;
  }

 private:
  std::vector<int32_t> encode_words(std::string_view text) const {
    std::vector<std::string> special;
    for (const tokenizer::SpecialText& found : tokenizer_.special_tokens_in(text)) {
      special.push_back(tokenizer_.piece(found.id));
    }
    if (splits_ && !text.empty()) {
      refuse_unsplit(line_, special, tokenizer_);
      const tokenizer::Literal all{0, text.size()};
      return tokenizer_.encode_with_offsets(text, {&all, 1}).ids;
    }
    for (const std::string& each : special) notes_.add(Note::kSpecialText, each);
    return tokenizer_.encode(text);
  }

  const Line& line_;
  const Tokenizer& tokenizer_;
  const bool splits_;
  LineNotes& notes_;
};

// Prompt and completion are tokenized together, since that is how a model reads them. The tokens of the prompt are
// those that it shares, from the front, with the prompt tokenized alone: a token across the border belongs to the
// completion.
Example encode_prompt_completion(const TextEncoder& encoder, const std::string& prompt, const std::string& completion,
                                 bool completion_only) {
  Example example = encoder.encode_example(prompt + completion);
  if (!completion_only) return example;
  const std::vector<int32_t> alone = encoder.encode(prompt);
  const auto border = std::mismatch(alone.begin(), alone.end(), example.ids.begin(), example.ids.end()).second;
  std::fill(example.labels.begin(), example.labels.begin() + (border - example.ids.begin()),
            static_cast<int32_t>(kIgnored));
  return example;
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
  LineEncoder(const Line& line, const Encoders& encoders, const DatasetOptions& options, LineNotes& notes)
      : line_(line), encoders_(encoders), options_(options), notes_(notes) {}

  Example encode(DatasetFormat format) const {
    check_keys(line_, format, notes_);
    switch (format) {
      case DatasetFormat::kAuto:
        break;  // has been resolved
      case DatasetFormat::kTokenIds:
        return read_token_ids(line_, options_);
      case DatasetFormat::kText:
        refuse_completion_only("a line of text");
        return text_encoder().encode_example(line_.text("text"));
      case DatasetFormat::kPromptCompletion:
        return encode_prompt_and_completion();
      case DatasetFormat::kAlpaca:
        return encode_prompt_completion(text_encoder(), alpaca_question(), line_.text("output"), completion_only());
      case DatasetFormat::kMessages:
        return encode_conversation(read_messages(line_, notes_), 0);
      case DatasetFormat::kShareGpt:
        return encode_conversation(read_sharegpt(line_, notes_), 0);
      case DatasetFormat::kPreference:
        line_.fail("is preference data (chosen, rejected), but objective: sft learns samples as they stand",
                   "set objective: dpo or simpo, or write the good answers alone, as completion beside their prompt");
    }
    throw Error("the format of " + line_.where + " is not known");
  }

  std::vector<Example> encode_preference() const {
    check_keys(line_, DatasetFormat::kPreference, notes_);
    std::vector<Example> examples;
    int64_t border = INT64_MAX;
    for (const char* answer : {"chosen", "rejected"}) {
      refuse_repeated_prompt(answer);
      const Example& example = examples.emplace_back(encode_answer(answer));
      border = std::min<int64_t>(border, std::ranges::find_if(example.labels, counts) - example.labels.begin());
    }
    for (Example& example : examples) {
      std::copy(example.ids.begin() + border, example.ids.end(), example.labels.begin() + border);
    }
    if (examples[0].ids == examples[1].ids) notes_.add(Note::kEqualAnswers);
    return examples;
  }

  // Many public files have the prompt in the answers as well.
  void refuse_repeated_prompt(const char* key) const {
    const auto prompt = line_.value.find("prompt"), answer = line_.value.find(key);
    if (prompt == line_.value.end() || answer == line_.value.end() || !answer->is_array() || answer->empty()) return;
    if (prompt->is_string()) {
      line_.fail(std::string(key) + " is a list of messages, but prompt is a text",
                 "write all three as messages; where answers begin with the prompt: jq -c '.prompt = .chosen[:-1] | "
                 ".chosen = .chosen[-1:] | .rejected = .rejected[-1:]' OLD > NEW");
    }
    if (!prompt->is_array() || prompt->empty() || answer->size() < prompt->size()) return;
    if (!std::equal(prompt->begin(), prompt->end(), answer->begin())) return;
    line_.fail(std::string(key) + " begins with the messages of prompt, which would be learned as a part of the answer",
               "leave them out of it: an answer is what follows the prompt");
  }

  TokenPair encode_pair(DatasetFormat format) const {
    if (options_.completion_only_loss == false) {
      line_.fail("completion_only_loss: false, but a decoder learns what answers the source alone", "remove it");
    }
    check_keys(line_, format, notes_);
    switch (format) {
      case DatasetFormat::kTokenIds:
        return read_token_pair(line_);
      case DatasetFormat::kAlpaca:
        return pair_of(alpaca_question(), line_.text("output"));
      case DatasetFormat::kPromptCompletion:
        if (!is_conversation(line_, format)) {
          refuse_keys_of_conversations();
          return pair_of(line_.text("prompt"), line_.text("completion"));
        }
        [[fallthrough]];
      default:
        line_.fail("is " + std::string(describe(format)) + ", but an encoder and decoder learns sources and targets",
                   "write prompt and completion as texts, or input_ids and labels");
    }
  }

 private:
  TokenPair pair_of(const std::string& source, const std::string& target) const {
    return {text_encoder().encode_example(source).ids, text_encoder().encode_example(target).ids};
  }
  static bool counts(int32_t label) { return label != kIgnored; }
  bool completion_only() const { return options_.completion_only_loss.value_or(true); }
  const Tokenizer& tokenizer() const {
    if (encoders_.tokenizer != nullptr) return *encoders_.tokenizer;
    throw EveryLineFails(line_.where + ": needs a tokenizer, and the model's folder has none");
  }
  TextEncoder text_encoder() const { return TextEncoder(line_, tokenizer(), options_, notes_); }
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
  void refuse_keys_of_conversations() const {
    for (const char* key : {"system", "tools", "chat_template_kwargs"}) {
      const auto found = line_.value.find(key);
      if (found == line_.value.end() || holds_nothing(*found)) continue;
      line_.fail(std::string(key) + ": a prompt that is text has no place for it",
                 "write prompt and completion as messages: [{\"role\": \"user\", \"content\": …}]");
    }
  }

  Example encode_conversation(const Conversation& conversation, size_t answered) const {
    if (answered == 0) refuse_completion_only("a conversation");
    return data::encode_conversation(line_, conversation, answered, tokenizer(), chat_template(), options_, notes_);
  }

  Example encode_prompt_and_completion() const { return encode_answer("completion"); }

  // What the key holds, as what is answered to the prompt.
  Example encode_answer(const char* answer) const {
    for (const char* key : {"prompt", answer}) {
      if (!line_.value.contains(key)) line_.fail(std::string("has no ") + key);
    }
    if (is_conversation(line_, DatasetFormat::kPromptCompletion)) {
      Conversation all = read_messages(line_, notes_, "prompt");
      const Conversation completion = read_messages(line_, notes_, answer);
      if (options_.answers > 1) refuse_voices(completion);
      const size_t answered = all.messages.size();
      for (const Json& message : completion.messages) all.messages.push_back(message);
      all.voices.insert(all.voices.end(), completion.voices.begin(), completion.voices.end());
      all.places.insert(all.places.end(), completion.places.begin(), completion.places.end());
      return encode_conversation(all, answered);
    }
    refuse_keys_of_conversations();
    return encode_prompt_completion(text_encoder(), line_.text("prompt"), line_.text(answer), completion_only());
  }

  void refuse_voices(const Conversation& answer) const {
    const auto silent = std::ranges::find(answer.voices, Voice::kSilent);
    if (silent == answer.voices.end()) return;
    line_.fail(answer.places[static_cast<size_t>(silent - answer.voices.begin())] +
                   " shall not count, but the answers of a preference count as a whole",
               "move it into the prompt, or remove its weight or train");
  }

  std::string alpaca_question() const {
    const auto input = line_.value.find("input");
    const bool has_input = input != line_.value.end() && !input->is_null();
    return alpaca_prompt(line_.text("instruction"), has_input ? line_.text("input") : std::string());
  }

  const Line& line_;
  const Encoders& encoders_;
  const DatasetOptions& options_;
  LineNotes& notes_;
};

// One target, the token that ends the example.
void note_empty(const Example& example, const Encoders& encoders, LineNotes& notes) {
  if (encoders.tokenizer == nullptr || !encoders.tokenizer->eos_id || example.labels.empty()) return;
  const auto later = example.labels.begin() + 1;
  const auto targets = std::count_if(later, example.labels.end(), [](int32_t label) { return label != kIgnored; });
  if (targets == 1 && example.labels.back() == *encoders.tokenizer->eos_id) notes.add(Note::kEmptyAnswer);
}

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
  const bool prompted = format == DatasetFormat::kPromptCompletion || format == DatasetFormat::kPreference;
  return prompted && prompt != line.value.end() && prompt->is_array();
}

Example encode_line(const Line& line, DatasetFormat format, const Encoders& encoders, const DatasetOptions& options,
                    LineNotes& notes) {
  Example example = LineEncoder(line, encoders, options, notes).encode(format);
  check_ids(line, example, options.vocabulary_size);
  note_empty(example, encoders, notes);
  return example;
}

std::vector<Example> encode_preference(const Line& line, const Encoders& encoders, const DatasetOptions& options,
                                       LineNotes& notes) {
  std::vector<Example> examples = LineEncoder(line, encoders, options, notes).encode_preference();
  for (const Example& example : examples) {
    check_ids(line, example, options.vocabulary_size);
    note_empty(example, encoders, notes);
  }
  return examples;
}

Example encode_pair(const Line& line, DatasetFormat format, const Encoders& encoders, const DatasetOptions& options,
                    Truncation& truncation, LineNotes& notes) {
  TokenPair pair = LineEncoder(line, encoders, options, notes).encode_pair(format);
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
  note_empty(example, encoders, notes);
  return example;
}

}  // namespace fathom::data
