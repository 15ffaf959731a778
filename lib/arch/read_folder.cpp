// Looks for names, and compares head and embedding byte by byte.
#include "arch/read_folder.h"

#include <cstring>

#include "arch/text_part.h"
#include "base/bytes.h"
#include "weights/other_parts.h"

namespace fathom::arch {
namespace {

bool differ(const weights::ModelFolder::Entry& head, const weights::ModelFolder::Entry& embedding) {
  if (head.info->dtype != embedding.info->dtype || head.info->shape != embedding.info->shape) return true;
  const bool same = std::memcmp(head.data(), embedding.data(), static_cast<size_t>(head.info->bytes)) == 0;
  for (const auto* entry : {&head, &embedding}) entry->file->release(*entry->info);
  return !same;
}

bool has_own_head(const Architecture& architecture, const weights::ModelFolder& folder) {
  const ModelNames names = architecture.names();
  const auto find = [&](const char* module) {
    return folder.find(stored_name(architecture.text_part, std::string(module) + ".weight"));
  };
  const auto head = find(names.head), embedding = find(names.embedding);
  return head && embedding && differ(*head, *embedding);
}

}  // namespace

Architecture read_architecture(const weights::ModelFolder& folder) {
  const bool is_file = folder.path().extension() == ".json";
  Architecture architecture =
      parse_architecture(folder.config(), (is_file ? folder.path() : folder.path() / "config.json").string());
  if (architecture.text_part) {
    find_names(*architecture.text_part, [&](const std::string& name) { return folder.find(name).has_value(); });
  }
  if (architecture.tie_word_embeddings && has_own_head(architecture, folder)) architecture.tie_word_embeddings = false;
  return architecture;
}

OtherTensors other_tensors(const Architecture& architecture, const weights::ModelFolder& folder) {
  OtherTensors others;
  if (!architecture.text_part) return others;
  for (const std::string& name : folder.names()) {
    if (!weights::is_of_other_part(name)) continue;
    others.names.push_back(name);
    others.bytes = checked_add(others.bytes, folder.find(name)->info->bytes, name);
  }
  return others;
}

}  // namespace fathom::arch
