// Compares names without the words that say nothing of a shape.
#include "app/words/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <utility>

#include "app/installation.h"
#include "arch/families.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "weights/hub.h"

namespace fathom::app {
namespace {

constexpr std::array kWordsOfTuning{"meta", "hf", "base", "chat", "instruct", "it", "pt"};

// What remains of some names, where the shape is called otherwise.
constexpr std::array kOtherNames{std::pair{"tinyllama-1.1b-v1.0", "tinyllama-1.1b"},
                                 std::pair{"mistral-small-3.1-24b-2503", "mistral-small-3.2-24b"},
                                 std::pair{"mistral-small-3.1-24b", "mistral-small-3.2-24b"},
                                 std::pair{"mistral-small-3.2-24b-2506", "mistral-small-3.2-24b"},
                                 std::pair{"ministral-3-3b-2512", "ministral-3-3b"},
                                 std::pair{"ministral-3-8b-2512", "ministral-3-8b"},
                                 std::pair{"ministral-3-14b-2512", "ministral-3-14b"},
                                 std::pair{"mistral-nemo-2407", "mistral-nemo-12b"},
                                 std::pair{"olmo-2-0425-1b", "olmo-2-1b"},
                                 std::pair{"olmo-2-1124-7b", "olmo-2-7b"},
                                 std::pair{"olmo-2-1124-13b", "olmo-2-13b"},
                                 std::pair{"olmo-2-0325-32b", "olmo-2-32b"},
                                 std::pair{"olmo-3-1025-7b", "olmo-3-7b"},
                                 std::pair{"olmo-3-1125-32b", "olmo-3-32b"},
                                 std::pair{"c4ai-command-r-v01", "command-r-v01"},
                                 std::pair{"c4ai-command-r-08-2024", "command-r-08-2024"},
                                 std::pair{"glm-4.6", "glm-4.5"},
                                 std::pair{"glm-4.7", "glm-4.5"},
                                 std::pair{"deepseek-r1", "deepseek-v3"},
                                 std::pair{"deepseek-r1-0528", "deepseek-v3"},
                                 std::pair{"deepseek-v3-0324", "deepseek-v3"},
                                 std::pair{"deepseek-v3.1", "deepseek-v3"},
                                 std::pair{"mistral-small-4-119b-2603", "mistral-small-4"},
                                 std::pair{"qwen3-coder-next", "qwen3-next-80b-a3b"},
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

// How the names of models begin that are of no family here, as plain_name writes them.
constexpr std::array kOthers{
    "qwen 3 vl 30 b", "qwen 3 vl 235 b", "qwen 3 omni",      "qwen 2.5 omni",  "gemma 3 ne",
    "gemma 4 e",      "gemma 4 26 b",    "llama 4",          "llama 3.2 11 b", "llama 3.2 90 b",
    "deepseekv 2",    "deepseekv 3.2",   "deepseekv 4",      "kimik 2",        "glm 4.5 v",
    "glm 4.6 v",      "glm 5",           "minimaxm 1",       "minimaxm 2",     "phi 2",
    "phi 3.5 moe",    "phi 3.5 vision",  "phi 4 multimodal", "granite 4.0 h",  "nemotronh",
    "nvidianemotron", "falcon 7 b",      "falcon 40 b",      "falconh 1",      "lfm 2 8 b",
    "lfm 2 24 b",     "lfm 2 vl",        "lfm 2.5 vl",       "ernie 4.5 21 b", "ernie 4.5 300 b",
    "ernie 4.5 vl",   "exaone 4.5",      "smolvlm",          "starcoder 2",    "pythia",
    "modernbert",     "whisper"};

// The digits of a shape's name: of its size ("8" of llama-3.1-8b, empty where it tells none), and all before it.
struct Digits {
  std::string size, version;
};
Digits digits_of(const std::string& name) {
  std::istringstream words(plain_name(name));
  Digits digits;
  std::string number;
  for (std::string word; words >> word;) {
    const bool is_unit = word.starts_with("b") || word == "m";
    if (!number.empty() && is_unit && digits.size.empty()) {
      digits.size = number + word.front();
    } else if (digits.size.empty()) {
      std::erase(number, '.');
      digits.version += number;
    }
    number = std::isdigit(static_cast<unsigned char>(word.front())) != 0 ? word : "";
  }
  if (digits.size.empty()) {
    std::erase(number, '.');
    digits.version += number;
  }
  return digits;
}

// Whether who typed the name may have meant the shape: of another size or version nothing is the same.
bool may_mean(const std::string& typed, const std::string& shape) {
  const Digits its = digits_of(typed), known = digits_of(shape);
  return (its.size.empty() || its.size == known.size) && (its.version.empty() || its.version == known.version);
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
  const std::string wanted = plain_name(name_of_shape(name));
  const std::vector<std::string> known = known_models();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& each) { return plain_name(each) == wanted; });
  return found == known.end() ? std::nullopt : std::optional(*found);
}

void refuse_others(const std::string& name) {
  if (is_downloaded(name)) return;  // its config.json says what it is
  const std::string plain = plain_name(name_of_shape(name));
  const auto begins = [&](const std::string& with) {
    if (!plain.starts_with(with)) return false;
    const std::string rest = plain.substr(with.size());
    if (rest.empty() || rest.starts_with(" bit")) return rest.empty();
    return std::isdigit(static_cast<unsigned char>(rest.front())) == 0;
  };
  if (plain.find("distill") != std::string::npos) return;
  for (const char* others : kOthers) {
    if (begins(others))
      throw UsageError("'" + name + "' is of no family that fathom trains", std::string(arch::kOthersArePlanned));
  }
}

std::string folder_or_known_shape(const std::string& name) {
  if (is_downloaded(name)) return name;
  const std::optional<std::string> known = known_model(name);
  if (!known && !std::filesystem::exists(name)) refuse_others(name);
  if (!known) return name;
  if (name.find('/') != std::string::npos) {
    log_info(name + " is not in the cache: planned by the shape of configs/models/" + *known);
  }
  return (models_folder() / *known).string();
}

std::string how_models_are_named(const std::string& name) {
  const std::string typed = name_of_shape(name);
  std::vector<std::string> near, begun;
  for (const std::string& known : known_models()) {
    if (!may_mean(typed, known)) continue;
    near.push_back(known);
    if (plain_name(known).starts_with(plain_name(typed))) begun.push_back(known);
  }
  std::string meant = did_you_mean(typed, near);
  for (size_t i = 0; i < begun.size(); ++i) meant = (i == 0 ? "did you mean " : meant + " or ") + begun[i];
  if (!begun.empty()) meant += "?";
  return (meant.empty() ? "" : meant + " ") + "`fathom list models` names the known shapes";
}

}  // namespace fathom::app
