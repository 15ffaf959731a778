// Tokens in memory, and stores of tokens one behind the other.
#include "data/tokens.h"

#include <algorithm>
#include <stdexcept>

#include "base/hash.h"

namespace fathom::data {
namespace {

void check_range(uint64_t first, size_t count, uint64_t size) {
  if (first > size || count > size - first) throw std::out_of_range("tokens beyond the end of their store");
}

class TokensInMemory : public Tokens {
 public:
  explicit TokensInMemory(std::vector<int32_t> words)
      : words_(std::move(words)), digest_(hash_bytes(words_.data(), words_.size() * sizeof(int32_t))) {}
  void read(uint64_t first, std::span<int32_t> words) const override {
    check_range(first, words.size(), words_.size());
    std::copy_n(words_.begin() + static_cast<std::ptrdiff_t>(first), words.size(), words.begin());
  }
  uint64_t size() const override { return words_.size(); }
  std::string digest() const override { return digest_; }

 private:
  const std::vector<int32_t> words_;
  const std::string digest_;
};

class JoinedTokens : public Tokens {
 public:
  explicit JoinedTokens(std::vector<std::shared_ptr<const Tokens>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) starts_.push_back(starts_.back() + part->size());
  }
  // What is read lies in one part.
  void read(uint64_t first, std::span<int32_t> words) const override {
    check_range(first, words.size(), size());
    if (words.empty()) return;
    const auto part = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
    parts_[static_cast<size_t>(part)]->read(first - starts_[static_cast<size_t>(part)], words);
  }
  uint64_t size() const override { return starts_.back(); }
  std::string digest() const override {
    std::string digests;
    for (const auto& part : parts_) digests += part->digest();
    return hash_bytes(digests.data(), digests.size());
  }

 private:
  const std::vector<std::shared_ptr<const Tokens>> parts_;
  std::vector<uint64_t> starts_ = {0};
};

}  // namespace

std::shared_ptr<const Tokens> tokens_in_memory(std::vector<int32_t> words) {
  return std::make_shared<TokensInMemory>(std::move(words));
}

std::shared_ptr<const Tokens> joined_tokens(std::vector<std::shared_ptr<const Tokens>> parts) {
  return std::make_shared<JoinedTokens>(std::move(parts));
}

}  // namespace fathom::data
