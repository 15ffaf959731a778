// `fathom logits` on the command line.
#pragma once

#include <charconv>

#include "app/shared_options.h"
#include "base/error.h"

namespace fathom::app {

class Logits final : public ModelUse {
 public:
  Logits() : ModelUse("logits", "Raw logits as safetensors, to compare with other implementations") {}
  std::vector<Option> options() override {
    return {words.subject_option("MODEL|RUN", "A model's folder, a run's, or an adapter's, whose base is found"),
            adapter_option(),
            activations_option(),
            Option("--ids", ids_text, "1,2,3", "Token ids").require(),
            Option("--out", out, "F", "The file to write").require(),
            words.overrides_option()};
  }
  void complete() override {
    find_model(words, *this);
    read_ids();
    choose_device(*this);
  }

  ConfigWords words;
  std::string ids_text;
  std::vector<int64_t> ids;   // at least one
  std::filesystem::path out;  // the safetensors file to write

 private:
  void read_ids() {
    const char* at = ids_text.data();
    const char* const end = at + ids_text.size();
    while (true) {
      int64_t id = -1;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc() || id < 0 || (next != end && *next != ',')) {
        throw UsageError("--ids: expected token ids like 1,2,3, got '" + ids_text.substr(0, 64) + "'");
      }
      ids.push_back(id);
      if (next == end) return;
      at = next + 1;
    }
  }
};

}  // namespace fathom::app
