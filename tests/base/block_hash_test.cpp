// Hashes of blocks: by whoever has one, in any order, and the same in the end.
#include "base/block_hash.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom {
namespace {

std::string text_of(int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761U >> 13);
  return text;
}

TEST(BlockHash, OfASmallFileIsItsOwn) {
  for (const int64_t bytes : {int64_t{0}, int64_t{3}, kHashedBlock}) {
    const std::string text = text_of(bytes);
    const BlockHashes hashes = hash_blocks(reinterpret_cast<const std::byte*>(text.data()), bytes, 0, 1);
    EXPECT_EQ(hash_of_blocks(hashes, bytes), hash_bytes(text.data(), text.size()));
  }
}

TEST(BlockHash, IsTheSameWhoeverHashesWhichBlocks) {
  const std::string text = text_of(3 * kHashedBlock + 5);
  const auto bytes = static_cast<int64_t>(text.size());
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  ASSERT_EQ(count_blocks(bytes), 4);
  const std::string expected = hash_of_blocks(hash_blocks(data, bytes, 0, 4), bytes);
  EXPECT_NE(expected, hash_bytes(text.data(), text.size()));

  BlockHasher whole(bytes), first(bytes), second(bytes);
  for (int64_t at = 0; at < bytes; at += 1'000'003) whole.add(at, data + at, std::min<int64_t>(1'000'003, bytes - at));
  EXPECT_EQ(hash_of_blocks(whole.hashes(), bytes), expected);

  const int64_t cut = kHashedBlock + 100;
  first.add(0, data, cut);
  second.add(cut, data + cut, bytes - cut);
  EXPECT_EQ(first.hashes().at(1), "");  // begun, and gone on with elsewhere
  EXPECT_EQ(second.hashes().size(), 2U);
  BlockHashes all = hash_blocks(data, bytes, 1, 1);
  for (const BlockHasher* hasher : {&second, &first}) {
    for (const auto& [block, hash] : hasher->hashes()) {
      if (!hash.empty()) add_from_text(to_text({{block, hash}}), all);
    }
  }
  EXPECT_EQ(hash_of_blocks(all, bytes), expected);
  all.erase(2);
  EXPECT_THROW(hash_of_blocks(all, bytes), Error);
  EXPECT_THROW(hash_of_blocks(first.hashes(), bytes), Error);
}

TEST(BlockHash, HashesNoBlockWithAGap) {
  const std::string text = text_of(2 * kHashedBlock);
  const auto bytes = static_cast<int64_t>(text.size());
  BlockHasher hasher(bytes);
  hasher.add(0, text.data(), 10);
  hasher.add(11, text.data() + 11, kHashedBlock - 11);
  EXPECT_EQ(hasher.hashes(), (BlockHashes{{0, ""}}));
  hasher.add(kHashedBlock, text.data() + kHashedBlock, kHashedBlock);
  EXPECT_EQ(hasher.hashes().at(1), hash_bytes(text.data() + kHashedBlock, static_cast<size_t>(kHashedBlock)));
  EXPECT_THROW(hasher.add(bytes, text.data(), 1), Error);
}

}  // namespace
}  // namespace fathom
