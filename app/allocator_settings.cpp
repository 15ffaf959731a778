// Checks the form of the allocator's settings before LibTorch sees them, and chooses where there are none.
#include "app/allocator_settings.h"

#include <cctype>
#include <cstdlib>
#include <regex>

#include "base/error.h"

namespace fathom::app {
namespace {

constexpr const char* kVariable = "PYTORCH_ALLOC_CONF";
constexpr const char* kOlderVariable = "PYTORCH_CUDA_ALLOC_CONF";

// "key:value" or "key:[size:divisions, …]", separated by commas; a key of mebibytes takes a whole number.
const std::regex kSettings(R"(((\w+_mb:\d+|\w+:\[[\w:,>]+\]|(?!\w+_mb:)\w+:[\w.]+)(,(?=\w)|,?$))*)");

std::string without_spaces(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) result += c;
  }
  return result;
}

}  // namespace

void check_allocator_settings(const std::string& variable, const std::string& value) {
  const std::string settings = without_spaces(value);
  constexpr size_t kLongest = 1024;
  if (settings.size() > kLongest || !std::regex_match(settings, kSettings)) {
    throw UsageError(variable + "='" + value.substr(0, 128) + "' is not a list of settings",
                     "write it like max_split_size_mb:128,expandable_segments:True, or unset it");
  }
  if (settings.find("backend:cudaMallocAsync") != std::string::npos) {
    throw UsageError(variable + " says backend:cudaMallocAsync, whose memory can neither be predicted nor counted",
                     "leave the backend out; expandable_segments:True keeps fragmentation low too");
  }
}

void check_allocator_settings() {
  for (const char* variable : {kOlderVariable, kVariable}) {
    if (const char* value = std::getenv(variable)) check_allocator_settings(variable, value);
  }
  const char *here = std::getenv(kVariable), *there = std::getenv(kOlderVariable);
  if (here == nullptr || there == nullptr || without_spaces(here) == without_spaces(there)) return;
  throw UsageError(std::string(kVariable) + " and " + kOlderVariable +
                       " differ, and LibTorch takes some settings from the one and some from the other",
                   std::string("unset ") + kOlderVariable);
}

void choose_allocator_settings(bool maps_memory) {
  if (std::getenv(kVariable) != nullptr || std::getenv(kOlderVariable) != nullptr) return;
  ::setenv(kVariable, maps_memory ? "expandable_segments:True" : "expandable_segments:False", /*overwrite=*/1);
}

bool expands_segments() {
  for (const char* variable : {kVariable, kOlderVariable}) {
    const char* value = std::getenv(variable);
    if (value != nullptr) return without_spaces(value).find("expandable_segments:True") != std::string::npos;
  }
  return false;
}

}  // namespace fathom::app
