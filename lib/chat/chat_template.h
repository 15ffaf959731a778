// A model's chat template: conversations to text, as transformers' apply_chat_template writes them. No torch header.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace fathom::chat {

struct ByteRange {
  int64_t begin = 0, end = 0;  // of the text; end is one past the last byte
  bool operator==(const ByteRange&) const = default;
};

struct RenderedChat {
  std::string text;
  std::vector<ByteRange> assistant;  // what the assistant says, its end token included where the template puts one
};

class ChatTemplate {
 public:
  // The folder's chat_template.jinja, else chat_template of tokenizer_config.json (a string, or a list of named ones,
  // of which "default"); nullopt if the folder has none. Special tokens as tokenizer_config.json and
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
  // has them, else by rendering the conversation up to each turn. Throws Error where that is not the start of the
  // whole, as with a template that writes earlier turns differently.
  RenderedChat render_with_assistant(const Json& messages, const Json& variables = Json::object()) const;

  bool has_generation_blocks() const;
  const std::string& origin() const;
  const std::map<std::string, std::string>& special_tokens() const;  // by variable: "eos_token"

 private:
  struct State;
  std::shared_ptr<const State> state_;
  std::optional<std::chrono::local_seconds> now_;
};

}  // namespace fathom::chat
