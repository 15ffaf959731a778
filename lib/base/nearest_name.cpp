// Compares names by what people type of them: letters and digits.
#include "base/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace fathom {
namespace {

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const unsigned char c : name) {
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

// Levenshtein's distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

constexpr size_t kLongest = 64, kShortestPart = 3;

std::vector<std::string> beginning_with(const std::string& letters, const std::vector<std::string>& candidates) {
  constexpr size_t kMost = 3;
  std::vector<std::string> found;
  if (letters.size() < kShortestPart) return found;
  for (const std::string& candidate : candidates) {
    if (letters_of(candidate).starts_with(letters)) found.push_back(candidate);
  }
  return found.size() > kMost ? std::vector<std::string>{} : found;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string letters = letters_of(name);
  if (name.size() > kLongest || letters.empty()) return "";
  const std::string* ending = nullptr;
  const std::string* nearest = nullptr;
  size_t smallest = std::max<size_t>(2, letters.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::string other = letters_of(candidate);
    if (other == letters) return candidate;
    const bool ends = letters.size() >= kShortestPart && other.ends_with(letters);
    if (ends && (ending == nullptr || candidate.size() < ending->size())) ending = &candidate;
    const size_t steps = distance(letters, other);
    if (steps >= smallest) continue;
    smallest = steps;
    nearest = &candidate;
  }
  return ending != nullptr ? *ending : nearest != nullptr ? *nearest : "";
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest = nearest_name(name, candidates);
  const std::string letters = letters_of(name), known = letters_of(nearest);
  const bool is_near_alone = known != letters && !known.ends_with(letters);
  if (is_near_alone && name.size() <= kLongest) {
    const std::vector<std::string> longer = beginning_with(letters, candidates);
    for (size_t i = 0; i < longer.size(); ++i) nearest = i == 0 ? longer[0] : nearest + " or " + longer[i];
  }
  return nearest.empty() ? "" : "did you mean " + nearest + "?";
}

}  // namespace fathom
