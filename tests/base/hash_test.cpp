// XXH3-128: the values that xxh128sum prints, in one piece, in many, and of a file.
#include "base/hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace fathom {
namespace {

std::string long_text() {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += static_cast<char>(i * 7 % 251);
  return text;
}

TEST(Hash, IsThatOfTheReferenceTool) {
  EXPECT_EQ(hash_bytes("", 0), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_bytes("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  const std::string text = long_text();
  Hasher hasher;
  size_t step = 1;
  for (size_t at = 0; at < text.size(); at += step, step = step * 2 + 1) {
    step = std::min(step, text.size() - at);
    hasher.update(text.data() + at, step);
  }
  EXPECT_EQ(hasher.digest(), hash_bytes(text.data(), text.size()));
}

TEST(Hash, OfAFileIsThatOfItsBytesAndChangesWithOneBit) {
  const auto path = std::filesystem::temp_directory_path() / ("fathom_hash_" + std::to_string(getpid()));
  std::string text = long_text();
  write_file_atomically(path, text);
  EXPECT_EQ(hash_file(path), hash_bytes(text.data(), text.size()));
  text[50000] ^= 1;
  EXPECT_NE(hash_file(path), hash_bytes(text.data(), text.size()));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fathom
