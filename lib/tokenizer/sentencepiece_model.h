// What a SentencePiece model's file holds, as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fathom::tokenizer {

inline constexpr size_t kMaxModelBytes = size_t{1} << 25;  // the largest in use have 5 MB

struct SentencePieceModel {
  // SentencePiece's numbers for what a piece is, and for the algorithm.
  static constexpr uint64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;
  static constexpr uint64_t kUnigram = 1, kBpe = 2;

  std::vector<std::string> pieces;  // by id
  std::vector<float> scores;
  std::vector<uint64_t> types;
  std::string characters;    // precompiled_charsmap: how characters are rewritten first
  bool adds_prefix = true;   // add_dummy_prefix
  bool joins_blanks = true;  // remove_extra_whitespaces
  uint64_t algorithm = kUnigram;
};

// Throws Error for a file that is no such model.
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace fathom::tokenizer
