// The keys that mean something in some tool's data files, and what is done with each of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "data/line.h"
#include "data/notes.h"

namespace fathom::data {

enum class KeyPlace {
  kLine,     // of the object on a line
  kMessage,  // of one of its messages
  kTurn,     // of one of ShareGPT's turns
};

enum class KeyHandling {
  kObeyed,
  kTemplate,  // handed to the chat template, and told where that never writes it
  kIdle,      // has nothing to say to a run
  kRefused,   // where it holds something
};

struct LineKey {
  std::string_view key;
  KeyPlace place;
  uint32_t formats;  // beside which it means this: bits of DatasetFormat
  KeyHandling handling;
  std::string_view tools;   // whose format has it
  std::string_view done;    // what is done; of what is refused, why
  std::string_view remedy;  // of what is refused
};

constexpr uint32_t bit_of(config::DatasetFormat format) { return 1U << static_cast<uint32_t>(format); }
// All of them. Keys that are not here are read by nobody: told once for each file, with a count.
std::span<const LineKey> line_keys();
// Null if the key means nothing there.
const LineKey* find_key(std::string_view key, KeyPlace place, config::DatasetFormat format);
// null, "", [] and {}: what tables write where a line has no such key.
bool holds_nothing(const Json& value);

// Notes the keys of the line that nobody reads, and fails for those that are refused.
void check_keys(const Line& line, config::DatasetFormat format, LineNotes& notes);
// The same for a message or turn. place: what errors call it ("messages[2]").
void check_keys(const Line& line, const Json& message, const std::string& place, KeyPlace kind,
                config::DatasetFormat format, LineNotes& notes);

// The table of docs/data.md: what is not simply a part of its format.
std::string line_keys_page();

}  // namespace fathom::data
