// Finds the number among the words, and searches.
#include "launch/numbered_word.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace fathom::launch {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMost) return std::nullopt;
  return value;
}

std::string without_dashes(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

}  // namespace

NumberedWord::NumberedWord(const std::vector<std::string>& words, const std::string& word) : words_(words) {
  const std::string key = without_dashes(word);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string bare = without_dashes(words[i]);
    const bool with_equals = bare.compare(0, key.size() + 1, key + "=") == 0;
    const bool is_option = bare == key && bare != words[i] && i + 1 < words.size();
    if (!with_equals && !is_option) continue;
    const size_t place = with_equals ? i : i + 1;
    const std::string before = with_equals ? words[i].substr(0, words[i].find('=') + 1) : "";
    const auto number = whole_number(words[place].substr(before.size()));
    if (!number) throw UsageError("'" + words[place] + "' gives " + key + " no whole number from 1 on");
    if (number_ != 0) throw UsageError("the command gives " + key + " twice; which of the two is to vary?");
    place_ = place;
    before_ = before;
    number_ = *number;
  }
  if (number_ == 0) {
    throw UsageError("no word of the command gives " + key + "; a number to begin with is needed, as in --" + key +
                     " 1");
  }
}

std::vector<std::string> NumberedWord::words_with(int64_t number) const {
  std::vector<std::string> words = words_;
  words[place_] = before_ + std::to_string(number);
  return words;
}

std::optional<int64_t> largest_that_fits(int64_t first, const std::function<bool(int64_t)>& fits) {
  int64_t low = 0, high = first;  // low fits, or is 0; high is not known to
  while (high <= kMost && fits(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low == 0 ? std::nullopt : std::optional(low);
}

}  // namespace fathom::launch
