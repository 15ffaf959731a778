// Levenshtein's distance to each candidate.
#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string>

namespace fathom {
namespace {

constexpr size_t kLongest = 64;

std::string plain(std::string_view word) {
  std::string letters(word);
  for (char& c : letters) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

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

}  // namespace

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > kLongest) return "";
  const std::string wanted = plain(word);
  std::string_view nearest;
  size_t smallest = std::max<size_t>(2, wanted.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t steps = distance(wanted, plain(candidate));
    if (steps >= smallest) continue;
    smallest = steps;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace fathom
