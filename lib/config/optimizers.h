// The optimizers, one row each: what a config calls it, what advice says of it, which keys it reads.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace fathom::config {

enum class Optimizer { kAdamW, kAdamW8bit, kAdamWBf16, kSgd, kAdafactor, kLion };

struct OptimizerRow {
  Optimizer optimizer;
  std::string_view name;
  const char* title;
  const char* note;
  bool reads_betas;  // adam_beta1 and adam_beta2
  bool is_adamw;     // keeps two moments and steps by their quotient; reads adam_epsilon and master_weights too
  bool by_elements;  // an element's update asks for no other's: processes may divide a matrix anywhere
};

inline constexpr OptimizerRow kOptimizers[] = {
    {Optimizer::kAdamW, "adamw", "AdamW", "two moments of each weight", true, true, true},
    {Optimizer::kAdamW8bit, "adamw_8bit", "AdamW in 8 bits",
     "the same update, its two moments rounded to 8 bits in blocks", true, true, false},
    {Optimizer::kAdamWBf16, "adamw_bf16", "AdamW in BF16", "the same update, its two moments rounded to BF16", true,
     true, true},
    {Optimizer::kSgd, "sgd", "SGD", "another update, without momentum: nothing kept; wants a higher rate", false, false,
     true},
    {Optimizer::kAdafactor, "adafactor", "Adafactor",
     "another update: one number kept for each row and column of a matrix", false, false, false},
    {Optimizer::kLion, "lion", "Lion", "another update, by signs: one number kept instead of two; wants a lower rate",
     true, false, true},
};

constexpr const OptimizerRow& row_of(Optimizer optimizer) {
  return *std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                       [=](const OptimizerRow& row) { return row.optimizer == optimizer; });
}

}  // namespace fathom::config
