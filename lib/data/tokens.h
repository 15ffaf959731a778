// Tokens of many examples end to end, in memory or in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fathom::data {

// A token with its label in 32 bits: the id, with the sign bit set where there is no loss. An example whose labels are
// other ids than its own takes two such words for each token: the id, then the label.
inline constexpr int32_t kWithoutLoss = INT32_MIN;

class Tokens {
 public:
  virtual ~Tokens() = default;
  // Copies words [first, first + words.size()); safe from several threads.
  virtual void read(uint64_t first, std::span<int32_t> words) const = 0;
  virtual uint64_t size() const = 0;
  virtual std::string digest() const = 0;  // XXH3-128 of all words
};

std::shared_ptr<const Tokens> tokens_in_memory(std::vector<int32_t> words);
// The words of each part behind those of the part before.
std::shared_ptr<const Tokens> joined_tokens(std::vector<std::shared_ptr<const Tokens>> parts);

}  // namespace fathom::data
