// Hashes the files that the tokenizer and the chat template are read from.
#include "schedule/tokens_identity.h"

#include <array>
#include <string_view>

#include "base/file.h"
#include "base/hash.h"
#include "weights/companion.h"

namespace fathom::schedule {
namespace {

namespace fs = std::filesystem;

struct IdentityFile {
  std::string_view name;
  bool has_template = false;
};
constexpr std::array<IdentityFile, 8> kFiles{{{"tokenizer.model"},
                                              {"spiece.model"},
                                              {"tokenizer.json"},
                                              {"tokenizer_config.json", true},
                                              {"special_tokens_map.json"},
                                              {"added_tokens.json"},
                                              {"chat_template.jinja", true},
                                              {"additional_chat_templates/tool_use.jinja", true}}};

}  // namespace

std::string tokens_identity(const fs::path& folder, const std::string& date) {
  std::string identity;
  bool writes_date = false;
  for (const auto& [name, has_template] : kFiles) {
    const bool there = fs::exists(folder / name);
    const std::string text = there ? read_file(folder / name, weights::kLargestCompanion) : "";
    identity += there ? hash_bytes(text.data(), text.size()) : "-";
    writes_date |= has_template && text.find("strftime_now") != std::string::npos;
  }
  if (writes_date) identity += date;
  return hash_bytes(identity.data(), identity.size());
}

}  // namespace fathom::schedule
