// Hashes config.json without what only tells who wrote it, and three pages of each tensor.
#include "schedule/base_identity.h"

#include <algorithm>

#include "base/hash.h"
#include "base/json_value.h"

namespace fathom::schedule {
namespace {

constexpr int64_t kSampleBytes = 4096;

void add_text(const std::string& text, Hasher& hasher) { hasher.update(text.c_str(), text.size() + 1); }

void add_samples(const weights::ModelFolder::Entry& entry, Hasher& hasher) {
  const int64_t last = std::max<int64_t>(0, entry.info->bytes - kSampleBytes);
  for (const int64_t start : {int64_t{0}, last / 2, last}) {
    hasher.update(entry.data() + start, static_cast<size_t>(std::min(kSampleBytes, entry.info->bytes)));
  }
  entry.file->release(*entry.info);
}

}  // namespace

std::string base_identity(const config::RunConfig& config, const weights::ModelFolder& folder) {
  Hasher hasher;
  Json description = folder.config();
  for (const char* key : {"_name_or_path", "transformers_version"}) description.erase(key);
  add_text(description.dump(), hasher);
  const bool frozen = config.method == config::Method::kLora && !config.random_init;
  for (const std::string& name : frozen ? folder.names() : std::vector<std::string>{}) {
    const weights::ModelFolder::Entry entry = *folder.find(name);
    add_text(name, hasher);
    add_text(std::string(dtype_name(entry.info->dtype)), hasher);
    hasher.update(entry.info->shape.data(), entry.info->shape.size() * sizeof(int64_t));
    add_samples(entry, hasher);
  }
  return hasher.digest();
}

}  // namespace fathom::schedule
