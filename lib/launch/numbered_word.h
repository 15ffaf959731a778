// A command whose memory is set by one number among its words: which, and the largest with which it fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fathom::launch {

// The number that a command gives for a key: "--batch 4", "--batch=4" or "batch=4" for "batch".
class NumberedWord {
 public:
  // word: the key, with its dashes or without. Throws UsageError where no word of the command, or more than one, gives
  // it a whole number from 1 on.
  NumberedWord(const std::vector<std::string>& words, const std::string& word);
  int64_t number() const { return number_; }
  std::vector<std::string> words_with(int64_t number) const;

 private:
  std::vector<std::string> words_;
  size_t place_ = 0;
  std::string before_;  // the number, in its word
  int64_t number_ = 0;
};

// Of the whole numbers from 1 on, where what fits with one fits with each that is smaller: tries `first`, then doubles
// or halves, then halves what is open between. nullopt: not even 1 fits.
std::optional<int64_t> largest_that_fits(int64_t first, const std::function<bool(int64_t)>& fits);

}  // namespace fathom::launch
