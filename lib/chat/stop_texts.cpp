// Searches what has come for the stop texts, and its end for their beginnings.
#include "chat/stop_texts.h"

#include <algorithm>
#include <utility>

namespace fathom::chat {

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) { std::erase(stops_, ""); }

std::string StopTexts::push(std::string_view more) {
  if (has_ended_) return "";
  held_ += more;
  size_t shown = held_.size();
  for (const std::string& stop : stops_) {
    if (const size_t at = held_.find(stop); at != std::string::npos) {
      shown = has_ended_ ? std::min(shown, at) : at;
      has_ended_ = true;
    }
  }
  if (!has_ended_) {
    for (const std::string& stop : stops_) {
      const size_t longest = std::min(stop.size() - 1, held_.size());
      for (size_t size = longest; size > 0; --size) {
        if (held_.ends_with(std::string_view(stop).substr(0, size))) {
          shown = std::min(shown, held_.size() - size);
          break;
        }
      }
    }
  }
  std::string text = held_.substr(0, shown);
  held_.erase(0, has_ended_ ? held_.size() : shown);
  return text;
}

std::string StopTexts::finish() { return std::exchange(held_, ""); }

}  // namespace fathom::chat
