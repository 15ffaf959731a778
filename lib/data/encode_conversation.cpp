// Renders once, and again for what is told of the line; the ranges of bytes that count become labels.
#include "data/encode_conversation.h"

#include <algorithm>

#include "base/json_value.h"
#include "chat/border.h"
#include "data/written.h"
#include "jinja/meter.h"

namespace fathom::data {
namespace {

using chat::ByteRange;
using Ranges = std::vector<ByteRange>;

// Of a rendering that is done some eight times more to tell what the assistant says, where only a warning needs that:
// many times what a long conversation takes.
constexpr int64_t kMostStepsForShare = 200'000;

Ranges common_to(const Ranges& ranges, int64_t begin) {
  Ranges common;
  for (const ByteRange& range : ranges) {
    if (range.end > begin) common.push_back({std::max(range.begin, begin), range.end});
  }
  return common;
}

// Which tokens have one of their bytes in a range.
std::vector<bool> tokens_in(const tokenizer::Encoding& encoding, size_t text_bytes, const Ranges& ranges) {
  std::vector<bool> inside(encoding.ids.size());
  size_t range = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    const int64_t begin = encoding.begins[i];
    const int64_t next = i + 1 < inside.size() ? encoding.begins[i + 1] : static_cast<int64_t>(text_bytes);
    while (range < ranges.size() && ranges[range].end <= begin) ++range;
    inside[i] = range < ranges.size() && ranges[range].begin < std::max(next, begin + 1);
  }
  return inside;
}

bool is_assistant(const Json& message) { return message["role"] == "assistant"; }

// An answer without words, calls or thoughts.
bool is_empty_answer(const Json& message, bool calls_are_written) {
  const auto holds = [&](const char* key) {
    const auto found = message.find(key);
    return found != message.end() && !found->is_null() && !found->empty();
  };
  const auto content = message.find("content");
  const bool blank = content == message.end() || !content->is_string() ||
                     content->get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
  const bool calls = holds("tool_calls") && calls_are_written;
  return is_assistant(message) && blank && !calls && !holds("reasoning_content") && !holds("thinking") &&
         !holds("reasoning");
}

class ConversationEncoder {
 public:
  ConversationEncoder(const Line& line, const Conversation& conversation, size_t answered,
                      const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat,
                      const DatasetOptions& options, LineNotes& notes)
      : line_(line),
        conversation_(conversation),
        answered_(answered),
        tokenizer_(tokenizer),
        chat_(chat),
        options_(options),
        notes_(notes) {
    completion_alone_ = answered > 0 && options.completion_only_loss.value_or(true);
  }

  Example encode() {
    check_voices();
    const bool any_silent = std::find(conversation_.voices.begin(), conversation_.voices.end(), Voice::kSilent) !=
                            conversation_.voices.end();
    const bool needs_turns = options_.assistant_only_loss || any_silent;
    const chat::RenderedChat rendered = render([&] {
      return needs_turns ? chat_.render_with_assistant(conversation_.messages, conversation_.variables)
                         : chat_.render(conversation_.messages, false, conversation_.variables);
    });
    const std::string& text = rendered.text;
    const RenderText render_text = [&](const Json& messages, const Json& variables) {
      return render([&] { return chat_.render(messages, false, variables); }).text;
    };
    note(text, render_text);
    tokenizer::Encoding encoding = tokenizer_.encode_with_offsets(text, literals_in(text, render_text));

    const int64_t first = completion_alone_ ? begin_of_completion(text) : 0;
    std::vector<bool> counts(encoding.ids.size(), true);
    const auto only = [&](const Ranges& ranges) {
      const std::vector<bool> inside = tokens_in(encoding, text.size(), ranges);
      for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts[i] && inside[i];
    };
    if (completion_alone_) only({{first, static_cast<int64_t>(text.size())}});
    if (options_.assistant_only_loss) only(rendered.assistant);
    if (any_silent) leave_out(rendered, encoding, first, counts);
    count_share(rendered, encoding, counts);
    return example_of(std::move(encoding.ids), counts);
  }

 private:
  static Example example_of(std::vector<int32_t> ids, const std::vector<bool>& counts) {
    Example example;
    example.ids = std::move(ids);
    example.labels = example.ids;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!counts[i]) example.labels[i] = static_cast<int32_t>(kIgnored);
    }
    return example;
  }

  // Of other messages than the assistant's nobody knows which part of the text they are.
  void check_voices() const {
    for (size_t i = completion_alone_ ? answered_ : 0; i < conversation_.messages.size(); ++i) {
      if (is_assistant(conversation_.messages[i])) continue;
      const Voice voice = conversation_.voices[i];
      const std::string role = conversation_.messages[i]["role"].get<std::string>();
      if (voice == Voice::kSilent && !options_.assistant_only_loss) {
        line_.fail(conversation_.places[i] + " shall not count for the loss, but is a message of the " + role,
                   "set assistant_only_loss: true, with which the assistant's messages alone count");
      }
      if (voice == Voice::kCounts && options_.assistant_only_loss) {
        line_.fail(conversation_.places[i] + " shall count for the loss, but is a message of the " + role,
                   "assistant_only_loss: true counts the assistant's messages alone: set it to false, or remove train");
      }
    }
  }

  void note(const std::string& text, const RenderText& render_text) {
    notes_.is_conversation = true;
    const bool calls_are_written = !note_unwritten(conversation_, text, render_text, notes_);
    for (size_t i = completion_alone_ ? answered_ : 0; i < conversation_.messages.size(); ++i) {
      const bool counts = conversation_.voices[i] != Voice::kSilent;
      if (counts && is_empty_answer(conversation_.messages[i], calls_are_written)) notes_.add(Note::kEmptyAnswer);
    }
  }

  std::vector<tokenizer::Literal> literals_in(const std::string& text, const RenderText& render_text) {
    const std::vector<std::string> special = special_texts(conversation_, tokenizer_);
    if (special.empty()) return {};
    if (options_.split_special_tokens) {
      refuse_unsplit(line_, special, tokenizer_);
      return special_text_places(line_, conversation_, text, tokenizer_, render_text);
    }
    for (const std::string& token : special) notes_.add(Note::kSpecialText, token);
    return {};
  }

  // The prompt ends where the template would have the model go on; what both renderings share is the prompt, since
  // some templates write more after the prompt alone.
  int64_t begin_of_completion(const std::string& text) const {
    const Json& all = conversation_.messages;
    const Json prompt(Json::array_t(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(answered_)));
    const bool generates = !is_assistant(prompt.back());
    const std::string start = render([&] { return chat_.render(prompt, generates, conversation_.variables); }).text;
    return static_cast<int64_t>(chat::end_of_prompt(start, text));
  }

  void leave_out(const chat::RenderedChat& rendered, const tokenizer::Encoding& encoding, int64_t first,
                 std::vector<bool>& counts) const {
    if (rendered.speakers.empty() && !rendered.assistant.empty()) {
      line_.fail(
          "has a message that shall not count for the loss, but of what the chat template writes it cannot be "
          "told which message it is of",
          "leave the line out, or mark what the assistant says in the template with {% generation %} … {% "
          "endgeneration %}");
    }
    Ranges silent;
    for (size_t i = 0; i < rendered.speakers.size(); ++i) {
      if (conversation_.voices[rendered.speakers[i]] == Voice::kSilent) silent.push_back(rendered.assistant[i]);
    }
    const std::vector<bool> inside = tokens_in(encoding, rendered.text.size(), common_to(silent, first));
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts[i] && !inside[i];
  }

  // How many of the targets the assistant says, where that is not all that counts, and is told soon.
  void count_share(const chat::RenderedChat& rendered, const tokenizer::Encoding& encoding,
                   const std::vector<bool>& counts) {
    if (!notes_.looks_at_share || options_.assistant_only_loss || answered_ > 0) return;
    if (rendered.steps > kMostStepsForShare) return;
    try {
      const Ranges said = rendered.speakers.empty()
                              ? chat_.render_with_assistant(conversation_.messages, conversation_.variables).assistant
                              : rendered.assistant;
      const std::vector<bool> inside = tokens_in(encoding, rendered.text.size(), said);
      for (size_t i = 1; i < counts.size(); ++i) {
        notes_.targets += counts[i] ? 1 : 0;
        notes_.of_assistant += counts[i] && inside[i] ? 1 : 0;
      }
    } catch (const Error&) {  // the template does not tell what the assistant says
    }
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
  const Conversation& conversation_;
  const size_t answered_;
  const tokenizer::Tokenizer& tokenizer_;
  const chat::ChatTemplate& chat_;
  const DatasetOptions& options_;
  LineNotes& notes_;
  bool completion_alone_ = false;
};

}  // namespace

Example encode_conversation(const Line& line, const Conversation& conversation, size_t answered,
                            const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat,
                            const DatasetOptions& options, LineNotes& notes) {
  return ConversationEncoder(line, conversation, answered, tokenizer, chat, options, notes).encode();
}

}  // namespace fathom::data
