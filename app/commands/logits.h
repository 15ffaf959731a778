// `fathom logits` on the command line.
#pragma once

#include <charconv>

#include "app/words/shared_options.h"
#include "base/error.h"

namespace fathom::app {

class Logits final : public ModelUse {
 public:
  Logits() : ModelUse("logits", "Raw logits as safetensors, to compare with other implementations") {}
  std::vector<Option> options() override {
    return {words.subject_option("MODEL|RUN", "A model's folder, a run's, or an adapter's, whose base is found"),
            adapter_option(),
            activations_option(),
            Option("--ids", ids_text, "1,2,3", "Token ids; of an encoder and decoder, its source's").require(),
            Option("--decoder-ids", decoder_ids_text, "0,1,2", "What its decoder reads, from the token it starts with"),
            Option("--out", out, "F", "The file to write").require(),
            words.overrides_option()};
  }
  void complete() override {
    find_model(words, *this);
    ids = read_ids("--ids", ids_text);
    if (!decoder_ids_text.empty()) decoder_ids = read_ids("--decoder-ids", decoder_ids_text);
    choose_device(*this);
  }

  ConfigWords words;
  std::string ids_text, decoder_ids_text;
  std::vector<int64_t> ids;          // at least one
  std::vector<int64_t> decoder_ids;  // empty: not given
  std::filesystem::path out;         // the safetensors file to write

 private:
  static std::vector<int64_t> read_ids(const std::string& option, const std::string& text) {
    std::vector<int64_t> read;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
      int64_t id = -1;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc() || id < 0 || (next != end && *next != ',')) {
        throw UsageError(option + ": expected token ids like 1,2,3, got '" + text.substr(0, 64) + "'");
      }
      read.push_back(id);
      if (next == end) return read;
      at = next + 1;
    }
  }
};

}  // namespace fathom::app
