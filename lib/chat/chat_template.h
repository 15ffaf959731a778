// A model's chat template: conversations to text, as transformers' apply_chat_template writes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "chat/byte_range.h"

namespace fathom::chat {

struct RenderedChat {
  std::string text;
  std::vector<ByteRange> assistant;   // what the assistant says, its end token included where the template puts one
  std::vector<size_t> speakers = {};  // of each of these the place of its message; empty where that is not known
  int64_t steps = 0;                  // that the renderings took (jinja::Meter), without those that prove
};

// The folder's templates as texts by their names, from where ChatTemplate::open takes them, unread.
std::map<std::string, std::string> template_texts(const std::filesystem::path& folder);

class ChatTemplate {
 public:
  // The folder's chat_template.jinja and additional_chat_templates/tool_use.jinja, else chat_template of
  // tokenizer_config.json: one template, or a list of named ones, of which "tool_use" writes conversations with tools
  // and "default" the others; nullopt if the folder has none. Special tokens as tokenizer_config.json and
  // special_tokens_map.json name them. Throws Error for a template that Jinja or this subset would refuse.
  static std::optional<ChatTemplate> open(const std::filesystem::path& folder);

  // origin: what errors call the template. special_tokens: the variables bos_token, eos_token and so on.
  ChatTemplate(const std::string& source, const std::string& origin,
               const std::map<std::string, std::string>& special_tokens = {});

  // What strftime_now tells in all renderings from here on, as the clock on the wall would show it; not called: each
  // rendering's own time (jinja::local_now).
  void set_now(std::chrono::local_seconds now) { now_ = now; }

  // messages: an array of objects with role and content. variables: an object of what else the template may read
  // ("tools", "enable_thinking"). `assistant` holds the template's own {% generation %} blocks only. Throws Error
  // (template, line, what), also for what the template itself raises, and for one that takes too long or too much.
  RenderedChat render(const Json& messages, bool add_generation_prompt, const Json& variables = Json::object()) const;

  // The whole conversation, with what the assistant says for certain: from {% generation %} blocks where the template
  // has them, else as find_assistant_turns tells. Throws Error where it cannot be told. The limits of a rendering hold
  // for all the work together, and for each of at most four renderings that prove it.
  RenderedChat render_with_assistant(const Json& messages, const Json& variables = Json::object()) const;

  // What the template writes behind an answer to end it ("<|im_end|>"); empty where there is nothing but blanks, or
  // where it does not write a question and its answer.
  std::string end_of_turn() const;

  const std::string& origin() const;
  const std::map<std::string, std::string>& special_tokens() const;  // by variable: "eos_token"

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
  std::optional<std::chrono::local_seconds> now_;
};

}  // namespace fathom::chat
