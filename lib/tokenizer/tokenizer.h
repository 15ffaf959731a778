// Text to token ids and back, as the model's own folder says. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::tokenizer {

class Tokenizer {
 public:
  // Opens tokenizer.model (SentencePiece) with the flags of tokenizer_config.json (add_bos_token, add_eos_token,
  // special tokens). A folder that has only tokenizer.json is refused with Error: that engine is not there yet.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder);
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> encode(std::string_view text) const = 0;   // without BOS and EOS
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;  // special tokens are left out
  virtual std::string piece(int32_t id) const = 0;                        // as stored, for display
  virtual int64_t vocabulary_size() const = 0;

  // As the tokenizer's files say; unset where they name none.
  std::optional<int32_t> bos_id, eos_id, pad_id, unk_id;
  bool adds_bos = true;   // tokenizer_config.json add_bos_token
  bool adds_eos = false;  // add_eos_token
};

}  // namespace fathom::tokenizer
