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

std::string plain_name(std::string_view name) {
  const auto is_digit = [&](size_t at) { return at < name.size() && name[at] >= '0' && name[at] <= '9'; };
  const auto is_letter = [](unsigned char c) { return c < 128 && std::isalpha(c) != 0; };
  std::string plain;
  char last = ' ';  // a letter as 'a', a part of a number as '0'
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_point = name[i] == '.' && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    const char kind = is_digit(i) || is_point ? '0' : is_letter(static_cast<unsigned char>(name[i])) ? 'a' : ' ';
    if (kind == ' ') continue;
    const bool goes_on =
        kind == last && (kind == 'a' || is_digit(i - 1) || (name[i - 1] == '.' && i > 1 && is_digit(i - 2)));
    if (!plain.empty() && !goes_on) plain += ' ';
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
    last = kind;
  }
  return plain;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string letters = letters_of(name);
  if (name.size() > kLongest || letters.empty()) return "";
  const std::string* ending = nullptr;
  const std::string* nearest = nullptr;
  // A letter alone stands for a word that it begins ("g": "gpu"); of others half remain.
  const size_t most = letters.size() == 1 ? 2 : (letters.size() + 1) / 2;
  size_t smallest = std::min(std::max<size_t>(2, letters.size() / 3), most) + 1;
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
