// A file of kept tokens, with whatever its header, words and places say. Its digests are put right: who forges a file
// can compute them, too.
#include "data/token_file.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "scratch_folder.h"

namespace {

constexpr size_t kWordsDigest = 16, kPlacesDigest = 48, kWords = 80, kHeader = 128;  // where they are in the file

void put_digest(std::string& file, size_t at, std::string_view bytes) {
  const std::string digest = fathom::hash_bytes(bytes.data(), bytes.size());
  file.replace(at, digest.size(), digest);
}

void put_digests(std::string& file) {
  if (file.size() < kHeader) return;
  uint64_t words = 0;
  std::memcpy(&words, file.data() + kWords, sizeof words);
  if (words > (file.size() - kHeader) / 4) return;
  const std::string rest = file.substr(kHeader);
  put_digest(file, kWordsDigest, std::string_view(rest).substr(0, 4 * words));
  put_digest(file, kPlacesDigest, std::string_view(rest).substr(4 * words));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  std::string file(fathom::fuzz::text_of(data, size));
  put_digests(file);
  folder.write("k.tokens", file);
  try {
    auto kept = fathom::data::open_tokens(folder.path(), "k", 50'000);
    if (!kept) return 0;
    const fathom::data::Dataset dataset(kept->tokens, std::move(kept->places));
    for (int64_t row = 0; row < dataset.size(); ++row) static_cast<void>(dataset.example(row));
    static_cast<void>(dataset.cut(3).fingerprint());
  } catch (const fathom::Error&) {
  }
  return 0;
}
