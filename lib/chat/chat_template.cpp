// Opens a folder's template, renders conversations as transformers does, and finds in them what the assistant says.
#include "chat/chat_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "jinja/template.h"

namespace fathom::chat {
namespace {

namespace fs = std::filesystem;
using Moment = std::optional<std::chrono::local_seconds>;

// The variables that transformers sets from a tokenizer's files.
constexpr std::array<const char*, 7> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                       "pad_token", "cls_token", "mask_token"};

Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json value = read_json(path);
  if (!value.is_object()) throw Error(path.string() + ": expected an object");
  return value;
}

std::map<std::string, std::string> read_special_tokens(const Json& config, const fs::path& folder) {
  const Json map = read_object(folder / "special_tokens_map.json");
  std::map<std::string, std::string> tokens;
  for (const char* name : kSpecialTokens) {
    for (const Json* source : {&config, &map}) {
      const auto found = source->find(name);
      if (found == source->end() || found->is_null()) continue;
      const Json& text = found->is_object() && found->contains("content") ? found->at("content") : *found;
      if (!text.is_string()) throw Error(folder.string() + ": " + name + ": expected the text of a token");
      tokens.emplace(name, text.get<std::string>());
      break;
    }
  }
  return tokens;
}

// The template that a config names "default" among several.
const Json& default_of(const Json& templates, const std::string& where) {
  for (const Json& entry : templates) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) {
      throw Error(where + ": expected objects with name and template");
    }
    if (entry.at("name") == "default") return entry.at("template");
  }
  throw Error(where + ": none of the templates is named \"default\"");
}

// Messages as apply_chat_template hands them to a template: without keys that are null, and with what the assistant
// thinks under all names that templates read.
Json prepared(const Json& messages, const std::string& origin) {
  if (!messages.is_array() || messages.empty()) throw Error(origin + ": expected a list of at least one message");
  Json result = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object()) throw Error(origin + ": expected messages that are objects");
    Json kept = Json::object();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept[key] = value;
    }
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (!kept.contains(name)) continue;
      const Json thought = kept.at(name);
      if (!kept.contains("thinking")) kept["thinking"] = thought;
      kept["reasoning_content"] = thought;
      break;
    }
    result.push_back(std::move(kept));
  }
  return result;
}

bool is_assistant(const Json& message) { return message.contains("role") && message.at("role") == "assistant"; }

size_t without_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? 0 : last + 1;
}

// Where the turn that `text` holds ends: after its end token, without the line break that templates put between turns;
// but where there is no such token, that line break is what ends the turn.
size_t end_of_turn(std::string_view text, const Json& message) {
  const size_t end = without_blanks(text);
  const auto content = message.find("content");
  if (content == message.end() || !content->is_string()) return end;
  const std::string& said = content->get_ref<const std::string&>();
  const bool has_end_token = !text.substr(0, end).ends_with(std::string_view(said).substr(0, without_blanks(said)));
  return has_end_token ? end : text.size();
}

}  // namespace

struct ChatTemplate::State {
  std::string origin;
  jinja::Template syntax;
  std::map<std::string, std::string> special_tokens;

  jinja::Rendered render(Json messages, bool add_generation_prompt, const Json& variables, const Moment& now) const {
    Json all = Json::object();
    for (const auto& [name, text] : special_tokens) all[name] = text;
    for (const auto& [name, value] : variables.items()) all[name] = value;
    for (const char* name : {"tools", "documents"}) {
      if (!all.contains(name)) all[name] = nullptr;
    }
    all["messages"] = std::move(messages);
    all["add_generation_prompt"] = add_generation_prompt;
    return syntax.render(all, {}, now);
  }

  // Byte ranges of the assistant's turns in `whole`, by rendering the conversation up to each.
  std::vector<ByteRange> find_turns(const Json& messages, const std::string& whole, const Json& variables,
                                    const Moment& now) const;
};

std::vector<ByteRange> ChatTemplate::State::find_turns(const Json& messages, const std::string& whole,
                                                       const Json& variables, const Moment& now) const {
  std::vector<ByteRange> turns;
  Json so_far = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json before = so_far;
    so_far.push_back(messages[i]);
    if (!is_assistant(messages[i])) continue;
    const std::string after = i + 1 == messages.size() ? whole : render(so_far, false, variables, now).text;
    const std::string start = before.empty() ? "" : render(before, false, variables, now).text;
    if (!whole.starts_with(after) || !after.starts_with(start)) {
      throw Error(
          origin + ": message " + std::to_string(i + 1) +
              " is written differently when more messages follow it, so that "
              "what the assistant says cannot be told from the rest",
          "Mark it in the template with {% generation %} … {% endgeneration %}, or train without assistant_only_loss.");
    }
    // What the template itself writes to make the assistant speak is not said by it.
    const std::string prompt = before.empty() ? "" : render(before, true, variables, now).text;
    const auto begin = static_cast<size_t>(
        std::mismatch(prompt.begin(), prompt.end(), after.begin(), after.end()).first - prompt.begin());
    const size_t from = std::max(begin, start.size());
    const size_t end = from + end_of_turn(std::string_view(after).substr(from), messages[i]);
    turns.push_back({static_cast<int64_t>(from), static_cast<int64_t>(end)});
  }
  return turns;
}

std::optional<ChatTemplate> ChatTemplate::open(const fs::path& folder) {
  const fs::path config_path = folder / "tokenizer_config.json";
  const Json config = read_object(config_path);
  const fs::path file = folder / "chat_template.jinja";
  const auto tokens = read_special_tokens(config, folder);
  if (fs::exists(file)) return ChatTemplate(read_file(file), file.string(), tokens);
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  const std::string where = config_path.string() + ": chat_template";
  const Json& source = found->is_array() ? default_of(*found, where) : *found;
  if (!source.is_string()) throw Error(where + ": expected a template as text");
  return ChatTemplate(source.get<std::string>(), where, tokens);
}

ChatTemplate::ChatTemplate(const std::string& source, const std::string& origin,
                           const std::map<std::string, std::string>& special_tokens)
    : state_(std::make_shared<const State>(State{origin, jinja::Template(source, origin), special_tokens})) {}

RenderedChat ChatTemplate::render(const Json& messages, bool add_generation_prompt, const Json& variables) const {
  jinja::Rendered rendered = state_->render(prepared(messages, state_->origin), add_generation_prompt, variables, now_);
  RenderedChat chat{std::move(rendered.text), {}};
  for (const auto& [begin, end] : rendered.generations) {
    if (end > begin) chat.assistant.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
  return chat;
}

RenderedChat ChatTemplate::render_with_assistant(const Json& messages, const Json& variables) const {
  const Json all = prepared(messages, state_->origin);
  jinja::Rendered rendered = state_->render(all, false, variables, now_);
  if (!has_generation_blocks()) {
    std::vector<ByteRange> turns = state_->find_turns(all, rendered.text, variables, now_);
    return {std::move(rendered.text), std::move(turns)};
  }
  if (rendered.has_hidden_generation) {
    throw Error(state_->origin +
                ": a {% generation %} block inside a macro or set block, whose place in the text is not known");
  }
  return render(messages, false, variables);
}

bool ChatTemplate::has_generation_blocks() const { return state_->syntax.has_generation_blocks(); }
const std::string& ChatTemplate::origin() const { return state_->origin; }
const std::map<std::string, std::string>& ChatTemplate::special_tokens() const { return state_->special_tokens; }

}  // namespace fathom::chat
