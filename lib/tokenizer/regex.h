// Regular expressions as tokenizer.json means them: Oniguruma's, in Ruby's syntax, over UTF-8.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::tokenizer {

// A stretch of a text: [begin, end) in bytes.
struct Piece {
  size_t begin, end;
};

// What all patterns together may spend on one text: far more than sound ones need.
class MatchBudget {
 public:
  explicit MatchBudget(size_t text_bytes)
      : MatchBudget(10'000'000 + 16 * static_cast<int64_t>(text_bytes),
                    std::chrono::seconds(10) + std::chrono::microseconds(10) * static_cast<int64_t>(text_bytes)) {}
  // steps: of backtracking, beyond the few that every search has. time: of this thread's processor.
  MatchBudget(int64_t steps, std::chrono::nanoseconds time);

  void spend(int64_t steps) {
    steps_ -= steps;
    searches_ = -1;
  }
  bool is_spent();  // counts a search; looks at the clock now and then, and whenever one went beyond its few steps

 private:
  int64_t steps_;
  std::chrono::nanoseconds end_;
  int64_t searches_ = 0;
};

class Regex {
 public:
  // where: what errors call the pattern (file and key). Throws Error for a pattern that Oniguruma refuses.
  Regex(std::string pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends all matches, from left to right; an empty one only where no match ended. `text` is well-formed. Threads may
  // share a Regex. Throws Error where the budget, which may be shared with other searches, is spent.
  void find_all(std::string_view text, std::vector<Piece>& matches, MatchBudget& budget) const;

 private:
  struct Compiled;
  struct Search;
  std::unique_ptr<Compiled> compiled_;
};

// The ranges of code points [first, last] that have a property by Oniguruma's tables ("L", "White_Space").
std::vector<std::pair<char32_t, char32_t>> code_ranges(const std::string& property);

}  // namespace fathom::tokenizer
