// The cache of words: what it finds is what was stored, however many words pass through.
#include "tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom::tokenizer {
namespace {

WordCache::Word word_of(const std::string& text) { return {text.data(), text.size(), text.size()}; }

std::vector<int32_t> found(const WordCache& cache, const std::string& text) {
  const WordCache::Entry* entry = cache.find(word_of(text));
  return entry == nullptr ? std::vector<int32_t>{} : std::vector<int32_t>(entry->ids, entry->ids + entry->count);
}

void store(WordCache& cache, const std::string& text, const std::vector<int32_t>& ids) {
  cache.store(word_of(text), ids.data(), ids.size());
}

TEST(WordCache, FindsWhatWasStoredAndNothingElse) {
  WordCache cache;
  store(cache, "a", {1});
  store(cache, std::string("a\0", 2), {2, 3});
  const std::string longest(WordCache::kLongestWord, 'b');
  const std::vector<int32_t> most(WordCache::kMostTokens, 4);
  store(cache, longest, most);
  EXPECT_EQ(found(cache, "a"), std::vector<int32_t>{1});
  EXPECT_EQ(found(cache, std::string("a\0", 2)), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(found(cache, longest), most);
  EXPECT_EQ(cache.find(word_of(std::string("a\0\0", 3))), nullptr);
}

TEST(WordCache, LooksAtNoByteBehindTheWord) {
  const std::string text = "lower and what comes behind it in the text";
  WordCache cache;
  store(cache, "lower", {7});
  EXPECT_NE(cache.find({text.data(), 5, text.size()}), nullptr);
  EXPECT_EQ(cache.find({text.data(), 6, text.size()}), nullptr);
}

// More words than there are places: what is found is right, and the latest is among it.
TEST(WordCache, OlderWordsGiveWay) {
  WordCache cache;
  constexpr int32_t kWords = 100000;
  for (int32_t i = 0; i < kWords; ++i) {
    const std::string text = std::to_string(i);
    store(cache, text, {i});
    ASSERT_EQ(found(cache, text), std::vector<int32_t>{i});
  }
  int kept = 0;
  for (int32_t i = 0; i < kWords; ++i) {
    const std::vector<int32_t> ids = found(cache, std::to_string(i));
    if (ids.empty()) continue;
    ASSERT_EQ(ids, std::vector<int32_t>{i});
    ++kept;
  }
  EXPECT_GT(kept, 25000);
  EXPECT_LE(kept, 32768);
}

}  // namespace
}  // namespace fathom::tokenizer
