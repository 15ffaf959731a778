// Two rows of the table of common subsequences at a time.
#include "train/answer_scores.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace fathom::train {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

std::string_view stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

// Of the longest one.
size_t common_subsequence(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  std::vector<size_t> before(b.size() + 1), now(b.size() + 1);  // of a's words so far and b's first ones
  for (const std::string_view word : a) {
    for (size_t j = 0; j < b.size(); ++j) now[j + 1] = word == b[j] ? before[j] + 1 : std::max(before[j + 1], now[j]);
    std::swap(before, now);
  }
  return before.back();
}

}  // namespace

double rouge_l(std::string_view said, std::string_view reference) {
  const std::vector<std::string_view> of_said = words_of(said), of_reference = words_of(reference);
  const auto common = static_cast<double>(common_subsequence(of_said, of_reference));
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(of_said.size());
  const double recall = common / static_cast<double>(of_reference.size());
  return 2 * precision * recall / (precision + recall);
}

void AnswerScores::add(std::string_view said, std::string_view reference) {
  answers_ += 1;
  exact_ += stripped(said) == stripped(reference) ? 1 : 0;
  rouge_l_ += train::rouge_l(said, reference);
}

}  // namespace fathom::train
