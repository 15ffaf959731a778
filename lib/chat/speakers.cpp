// By the trace of the rendering, else by counting.
#include "chat/speakers.h"

#include <algorithm>
#include <optional>

#include "base/json_value.h"

namespace fathom::chat {
namespace {

// By message, where each was written in one piece, one after the other; those of the assistant for certain.
std::optional<std::vector<size_t>> begins_of(const std::vector<jinja::Visit>& visits, const Json& messages,
                                             const std::vector<size_t>& assistant) {
  constexpr size_t kNowhere = SIZE_MAX;
  std::vector<size_t> begins(messages.size(), kNowhere);
  size_t written = 0;
  for (const jinja::Visit& visit : visits) {
    if (visit.is_hidden || visit.begin < written || begins[visit.item] != kNowhere) return std::nullopt;
    begins[visit.item] = visit.begin;
    written = visit.end;
  }
  const bool is_whole =
      std::all_of(assistant.begin(), assistant.end(), [&](size_t i) { return begins[i] != kNowhere; });
  return is_whole ? std::optional(begins) : std::nullopt;
}

}  // namespace

std::vector<size_t> speakers_of(const std::vector<ByteRange>& ranges, const std::vector<jinja::Visit>& visits,
                                const Json& messages) {
  std::vector<size_t> assistant;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto role = messages[i].find("role");
    if (role != messages[i].end() && *role == "assistant") assistant.push_back(i);
  }
  const auto begins = begins_of(visits, messages, assistant);
  if (!begins) return ranges.size() == assistant.size() ? assistant : std::vector<size_t>();
  std::vector<size_t> speakers;
  for (const ByteRange& range : ranges) {
    size_t speaker = messages.size();
    for (const size_t i : assistant) {
      if ((*begins)[i] <= static_cast<size_t>(range.begin)) speaker = i;
    }
    if (speaker == messages.size()) return {};
    speakers.push_back(speaker);
  }
  return speakers;
}

}  // namespace fathom::chat
