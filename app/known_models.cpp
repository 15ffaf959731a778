// Compares names without the words that say nothing of a shape.
#include "app/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <utility>

#include "app/installation.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "weights/hub.h"

namespace fathom::app {
namespace {

constexpr std::array kWordsOfTuning{"meta", "hf", "base", "chat", "instruct", "it"};

// What remains of some names, where the shape is called otherwise.
constexpr std::array kOtherNames{std::pair{"tinyllama-1.1b-v1.0", "tinyllama-1.1b"},
                                 std::pair{"mistral-nemo-2407", "mistral-nemo-12b"},
                                 std::pair{"olmo-2-0425-1b", "olmo-2-1b"},
                                 std::pair{"olmo-2-1124-7b", "olmo-2-7b"},
                                 std::pair{"olmo-2-1124-13b", "olmo-2-13b"},
                                 std::pair{"olmo-2-0325-32b", "olmo-2-32b"},
                                 std::pair{"olmo-3-1025-7b", "olmo-3-7b"},
                                 std::pair{"olmo-3-1125-32b", "olmo-3-32b"},
                                 std::pair{"flan-t5", "flan-t5-base"}};

// "meta-llama/Meta-Llama-3-8B-Instruct": llama-3-8b.
std::string name_of_shape(const std::string& name) {
  std::string lower = name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::istringstream words(lower);
  std::string shape;
  for (std::string word; std::getline(words, word, '-');) {
    if (std::find(kWordsOfTuning.begin(), kWordsOfTuning.end(), word) != kWordsOfTuning.end()) continue;
    shape += (shape.empty() ? "" : "-") + word;
  }
  for (const auto& [theirs, ours] : kOtherNames) {
    if (shape == theirs) return ours;
  }
  return shape;
}

bool is_downloaded(const std::string& name) {
  try {
    return std::filesystem::is_directory(weights::find_model(name));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<std::string> known_model(const std::string& name) {
  if (std::count(name.begin(), name.end(), '/') > 1) return std::nullopt;
  const std::vector<std::string> known = known_models();
  const auto found = std::find(known.begin(), known.end(), name_of_shape(name));
  return found == known.end() ? std::nullopt : std::optional(*found);
}

std::string folder_or_known_shape(const std::string& name) {
  if (is_downloaded(name)) return name;
  const std::optional<std::string> known = known_model(name);
  if (!known) return name;
  if (name.find('/') != std::string::npos) {
    log_info(name + " is not in the cache: planned by the shape of configs/models/" + *known);
  }
  return (models_folder() / *known).string();
}

std::string how_models_are_named(const std::string& name) {
  const std::string meant = did_you_mean(name.substr(name.find('/') + 1), known_models());
  return (meant.empty() ? "" : meant + " ") + "`fathom list models` names the known shapes";
}

}  // namespace fathom::app
