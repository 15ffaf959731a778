// The table of keys, each with how its value is drawn beside what was drawn before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/dice.h"
#include "tests/random/draw.h"

namespace fathom::random {

using fathom::testing::Dice;

// A run while it is drawn: its files, and the keys so far.
struct Draft {
  RandomRun run;
  Dice& dice;
  int64_t longest = 0;                                       // length of the data's longest sample
  bool multiplies_in_bf16 = true, multiplies_in_fp8 = true;  // the GPU
  Reach reach = Reach::kFar;

  bool is(const std::string& key, std::string_view word) const { return run.is(key, word); }
  bool lora() const { return is("method", "lora"); }
  bool dpo() const { return is("objective", "dpo"); }
  bool prefers() const { return dpo() || is("objective", "simpo"); }
  // Of which PEFT knows parameters alone.
  bool has_stacked_experts() const {
    const std::string type = run.model.value("model_type", "");
    return type == "granitemoe" || type == "gpt_oss";
  }
  bool has_experts() const { return run.model.contains("num_experts_per_tok"); }
  bool encodes() const { return run.encodes(); }
  bool on_gpu() const { return !run.gpu.empty(); }
  // Its folder has codes, which `quantize` makes or it has from the start.
  bool stored_in_codes() const { return !run.quantized.empty() || run.model.contains("quantization_config"); }
  bool quantized() const {
    return is("load_in_8bit", "true") || is("load_in_4bit", "true") || is("load_in_fp8", "true") || stored_in_codes();
  }
  bool adamw() const { return run.value("optim").starts_with("adamw"); }
  bool evaluates() const { return !is("eval_strategy", "no"); }
  bool saves() const { return !is("save_strategy", "no") || is("load_best_model_at_end", "true"); }
  // Of hundreds of steps, which exceed what a dry run plays one by one.
  bool is_long() const { return run.train.size() > 100; }
  bool is_gpt2() const { return run.model.value("model_type", "") == "gpt2"; }
  // Rows of whole groups, as INT4 has them.
  bool fits_int4() const;
  // Sides, products and a GPU as FP8 has them.
  bool multiplies_fp8() const;
  // The types in which weights are kept, and multiplied.
  std::string stored() const;
  std::string computed() const;
  bool attends_by_scores() const;  // so that each row is one text
  bool turns_long_texts_otherwise() const;
  bool of_several() const { return run.of_several(); }
  // An end of what a key takes, now and then.
  bool reaches() const { return dice.chance(0.04); }
  // Batches of all that a pass has, at least.
  int64_t lines() const { return std::ssize(run.train); }
  // What is refused for its reason alone: drawn now and then, to see that it is.
  bool rarely() const { return dice.chance(0.03); }
  int64_t number(const std::string& key) const { return std::stoll(run.value(key)); }
};

struct KeyDraw {
  std::string_view key;
  std::optional<std::string> (*value)(Draft&);  // nothing: the key is not given
};

// In an order in which each finds what it depends on.
const std::vector<KeyDraw>& key_draws();

}  // namespace fathom::random
