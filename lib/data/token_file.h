// Tokens of a data file kept on disk between runs, so that memory does not grow with the data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "data/notes.h"

namespace fathom::data {

// Tokens cannot be kept, or not be had back, for a reason that lies with the folder or its disk. No reason for a run to
// end: they fit into memory as well.
class TokenFileError : public Error {
 public:
  using Error::Error;
};

// A file of tokens that was opened: read as it is asked for, never mapped, so that resident memory is that of the
// places alone.
struct KeptTokens {
  std::shared_ptr<const Tokens> tokens;
  std::vector<Place> places;
  int64_t duplicates = 0;
  Truncation truncation = {};  // of what was cut before it came here
  Notes notes = {};
};

// The file <folder>/<key>.tokens if it is there and whole, which takes reading it once; a damaged one counts as none.
// vocabulary_size: ids outside it are refused when they are read. Throws TokenFileError.
std::optional<KeptTokens> open_tokens(const std::filesystem::path& folder, const std::string& key,
                                      int64_t vocabulary_size);

// Writes that file: whole or not at all, however many processes do so at once. Removes what killed ones left. Throws
// TokenFileError.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& folder, const std::string& key);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  void write(const std::vector<int32_t>& words);
  void finish(const std::vector<Place>& places, int64_t duplicates, const Notes& notes = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// $XDG_CACHE_HOME/fathom, else ~/.cache/fathom. Throws TokenFileError where neither is set.
std::filesystem::path default_cache_folder();

}  // namespace fathom::data
