// Opens a folder's templates and renders conversations as transformers does.
#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "chat/assistant_turns.h"
#include "chat/border.h"
#include "chat/speakers.h"
#include "jinja/template.h"

namespace fathom::chat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlain = "default";
constexpr const char* kForTools = "tool_use";

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

struct Source {
  std::string text, origin;
};
using Sources = std::map<std::string, Source>;  // by the name of the template

Sources read_files(const fs::path& folder) {
  Sources sources;
  for (const auto& [name, file] : {std::pair{kPlain, folder / "chat_template.jinja"},
                                   {kForTools, folder / "additional_chat_templates" / "tool_use.jinja"}}) {
    if (fs::exists(file)) sources[name] = {read_file(file), file.string()};
  }
  return sources;
}

// chat_template of tokenizer_config.json: of several of one name, the last.
Sources read_config(const Json& config, const std::string& where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return {{kPlain, {found->get<std::string>(), where}}};
  if (!found->is_array()) throw Error(where + ": expected a template as text, or a list of named ones");
  Sources sources;
  for (const Json& entry : *found) {
    const bool named = entry.is_object() && entry.contains("name") && entry.contains("template") &&
                       entry.at("name").is_string() && entry.at("template").is_string();
    if (!named) throw Error(where + ": expected objects with name and template");
    const auto name = entry.at("name").get<std::string>();
    sources[name] = {entry.at("template").get<std::string>(), where + "." + name};
  }
  if (!sources.contains(kPlain) && !sources.contains(kForTools)) {
    throw Error(where + ": none of the templates is named \"default\"");
  }
  return sources;
}

std::vector<ByteRange> blocks_of(const jinja::Rendered& rendered) {
  std::vector<ByteRange> blocks;
  for (const auto& [begin, end] : rendered.generations) {
    if (end > begin) blocks.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
  return blocks;
}

// Messages as apply_chat_template hands them to a template: without keys that are null, and with what the assistant
// thinks under all names that templates read.
Json prepared(const Json& messages, const std::string& origin) {
  if (!messages.is_array() || messages.empty()) throw Error(origin + ": expected a list of at least one message");
  Json result = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object()) throw Error(origin + ": expected messages that are objects");
    Json kept = Json::object();
    auto& entries = kept.get_ref<Json::object_t&>();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) entries.emplace_back(key, value);  // no key is there twice
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

}  // namespace

struct ChatTemplate::State {
  std::string origin;
  std::map<std::string, jinja::Template> templates;  // by name
  std::map<std::string, std::string> special_tokens;

  // Texts that this template may look for in what somebody says: those with a mark, as in "</think>". Words alone are
  // names of roles and keys.
  std::vector<std::string> known_texts(const jinja::Template& chosen) const {
    constexpr size_t kShortest = 3, kLongest = 64;
    std::vector<std::string> texts = chosen.literals();
    for (const auto& [name, text] : special_tokens) texts.push_back(text);
    std::erase_if(texts, [](const std::string& text) {
      return text.size() < kShortest || text.size() > kLongest || std::none_of(text.begin(), text.end(), is_mark);
    });
    return texts;
  }
  static bool is_mark(unsigned char byte) { return std::ispunct(byte) != 0; }

  State(const Sources& sources, std::string where, std::map<std::string, std::string> tokens)
      : origin(std::move(where)), special_tokens(std::move(tokens)) {
    for (const char* name : {kPlain, kForTools}) {
      const auto source = sources.find(name);
      if (source != sources.end()) templates.emplace(name, jinja::Template(source->second.text, source->second.origin));
    }
  }

  // As transformers' get_chat_template: an empty list of tools is one, too.
  const jinja::Template& chosen(const Json& variables) const {
    const auto tools = variables.find("tools");
    const auto for_tools = templates.find(kForTools), plain = templates.find(kPlain);
    if (tools != variables.end() && !tools->is_null() && for_tools != templates.end()) return for_tools->second;
    if (plain != templates.end()) return plain->second;
    throw Error(origin + ": none of the templates is named \"default\", and the conversation has no tools");
  }

  Json variables_with(Json messages, bool add_generation_prompt, const Json& variables) const {
    Json all = Json::object();
    for (const auto& [name, text] : special_tokens) all[name] = text;
    for (const char* name : {"tools", "documents"}) all[name] = nullptr;
    all["messages"] = std::move(messages);
    all["add_generation_prompt"] = add_generation_prompt;
    const Json own = all;
    auto& entries = all.get_ref<Json::object_t&>();
    for (const auto& [name, value] : variables.items()) {
      if (!own.contains(name)) {
        entries.emplace_back(name, value);
      } else if (name != "messages" && name != "add_generation_prompt") {
        all[name] = value;
      }
    }
    return all;
  }
};

std::map<std::string, std::string> template_texts(const fs::path& folder) {
  Sources sources = read_files(folder);
  const fs::path config = folder / "tokenizer_config.json";
  if (sources.empty()) sources = read_config(read_object(config), config.string() + ": chat_template");
  std::map<std::string, std::string> texts;
  for (auto& [name, source] : sources) texts[name] = std::move(source.text);
  return texts;
}

std::optional<ChatTemplate> ChatTemplate::open(const fs::path& folder) {
  const fs::path config_path = folder / "tokenizer_config.json";
  const Json config = read_object(config_path);
  const std::string where = config_path.string() + ": chat_template";
  Sources sources = read_files(folder);
  const bool in_files = !sources.empty();
  if (!in_files) sources = read_config(config, where);
  if (sources.empty()) return std::nullopt;
  const bool is_one = sources.size() == 1;
  const std::string origin = is_one ? sources.begin()->second.origin : in_files ? folder.string() : where;
  return ChatTemplate(std::make_shared<const State>(sources, origin, read_special_tokens(config, folder)));
}

ChatTemplate::ChatTemplate(const std::string& source, const std::string& origin,
                           const std::map<std::string, std::string>& special_tokens)
    : state_(std::make_shared<const State>(Sources{{kPlain, {source, origin}}}, origin, special_tokens)) {}

RenderedChat ChatTemplate::render(const Json& messages, bool add_generation_prompt, const Json& variables) const {
  const Json all = state_->variables_with(prepared(messages, state_->origin), add_generation_prompt, variables);
  jinja::Meter meter(state_->origin);
  jinja::Rendered rendered = state_->chosen(variables).render(all, meter, {now_, ""});
  std::vector<ByteRange> assistant = blocks_of(rendered);
  return {std::move(rendered.text), std::move(assistant), {}, meter.steps()};
}

RenderedChat ChatTemplate::render_with_assistant(const Json& messages, const Json& variables) const {
  const jinja::Template& chosen = state_->chosen(variables);
  const jinja::RenderOptions options{now_, "messages"};
  jinja::Meter meter(state_->origin);
  const Json all = prepared(messages, state_->origin);
  const auto render = [&](const Json& some, bool add_generation_prompt) {
    return chosen.render(state_->variables_with(some, add_generation_prompt, variables), meter, options);
  };
  const auto render_otherwise = [&](Speaker speaker, Renderings::Words words) {
    std::vector<std::string> kept;
    if (words == Renderings::Words::kUnknown) kept = state_->known_texts(chosen);
    const Json said = with_other_words(all, speaker, kept);
    const Json given = speaker == Speaker::kOthers ? with_other_descriptions(variables, kept) : variables;
    jinja::Meter own_meter(state_->origin);  // else a long conversation that is rendered could not be proved
    return chosen.render(state_->variables_with(said, false, given), own_meter, options);
  };
  jinja::Rendered whole = render(all, false);
  if (whole.has_hidden_generation) {
    throw Error(state_->origin +
                ": a {% generation %} block inside a macro or set block, whose place in the text is not known");
  }
  std::vector<ByteRange> assistant = chosen.has_generation_blocks()
                                         ? blocks_of(whole)
                                         : find_assistant_turns(all, whole, {render, render_otherwise}, state_->origin);
  std::vector<size_t> speakers = speakers_of(assistant, whole.visits, all);
  return {std::move(whole.text), std::move(assistant), std::move(speakers), meter.steps()};
}

std::string ChatTemplate::end_of_turn() const {
  const std::string answer = "answer";
  const Json messages = {{{"role", "user"}, {"content", "question"}}, {{"role", "assistant"}, {"content", answer}}};
  RenderedChat chat;
  try {
    chat = render_with_assistant(messages);
  } catch (const Error&) {
    return "";
  }
  if (chat.assistant.empty()) return "";
  const ByteRange turn = chat.assistant.back();
  const std::string said = chat.text.substr(turn.begin, turn.end - turn.begin);
  const size_t at = said.rfind(answer);
  if (at == std::string::npos) return "";
  const size_t begin = said.find_first_not_of(kBlanks, at + answer.size());
  return begin == std::string::npos ? "" : said.substr(begin, said.find_last_not_of(kBlanks) + 1 - begin);
}

const std::string& ChatTemplate::origin() const { return state_->origin; }
const std::map<std::string, std::string>& ChatTemplate::special_tokens() const { return state_->special_tokens; }

}  // namespace fathom::chat
