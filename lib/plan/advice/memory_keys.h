// What each key of a config is to a search for what fits.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "config/run_config.h"

namespace fathom::plan {

enum class MemoryKey {
  kSearched,  // a technique sets it (plan/advice/techniques.h), so that "nothing fits" is said of each of its values
  kQuestion,  // it says what is asked: the model, the data, what is trained, where; another value is another question
  kNone,      // it changes no byte of the device
};
// nullopt for a key that was never declared, and of which a search would know nothing.
std::optional<MemoryKey> memory_key(std::string_view key);

// The keys that the run sets and that no run on a GPU has had yet: docs/gpu-claims.md says of which there was one. Told
// here alone; tests hold it against that page.
std::vector<std::string_view> untried_on_gpus(const config::RunConfig& run);

}  // namespace fathom::plan
