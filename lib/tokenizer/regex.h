// Regular expressions as tokenizer.json means them: Oniguruma's, in Ruby's syntax, over UTF-8.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::tokenizer {

// A stretch of a text: [begin, end) in bytes.
struct Piece {
  size_t begin, end;
};

class Regex {
 public:
  // where: what errors call the pattern (file and key). Throws Error for a pattern that Oniguruma refuses.
  Regex(std::string pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends all matches, from left to right; an empty one only where no match ended. `text` is well-formed. Threads may
  // share a Regex. Throws Error where a match takes more than ten million steps of backtracking.
  void find_all(std::string_view text, std::vector<Piece>& matches) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The ranges of code points [first, last] that have a property by Oniguruma's tables ("L", "White_Space").
std::vector<std::pair<char32_t, char32_t>> code_ranges(const std::string& property);

}  // namespace fathom::tokenizer
