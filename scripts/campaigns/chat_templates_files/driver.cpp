// Asks the program's own libraries what scripts/campaigns/chat_templates asks: one JSON object in a line, one out.
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "chat/chat_template.h"

using fathom::Json;
using fathom::chat::ChatTemplate;

namespace {

std::unique_ptr<ChatTemplate> opened(const Json& question) {
  std::ifstream file(question.at("template").get<std::string>(), std::ios::binary);
  std::stringstream source;
  source << file.rdbuf();
  auto result = std::make_unique<ChatTemplate>(source.str(), "template",
                                               question.at("special").get<std::map<std::string, std::string>>());
  result->set_now(std::chrono::local_days{std::chrono::year(2026) / 11 / 28} + std::chrono::hours(1));
  return result;
}

Json answer(const ChatTemplate& style, const Json& question) {
  const auto asked = question.at("op").get<std::string>();
  if (asked == "end") return {{"text", style.end_of_turn()}};
  const Json &messages = question.at("messages"), &variables = question.at("variables");
  if (asked == "render") return {{"text", style.render(messages, question.at("prompt"), variables).text}};
  const auto chat = style.render_with_assistant(messages, variables);
  Json ranges = Json::array();
  for (const auto& range : chat.assistant) ranges.push_back({range.begin, range.end});
  return {{"text", chat.text}, {"ranges", ranges}};
}

}  // namespace

int main() {
  std::string line, path;
  std::unique_ptr<ChatTemplate> style;
  while (std::getline(std::cin, line)) {
    Json result;
    try {
      const Json question = Json::parse(line);
      if (question.at("template") != path) {
        path = "";
        style = opened(question);
        path = question.at("template").get<std::string>();
      }
      result = answer(*style, question);
    } catch (const fathom::Error& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
  }
}
