// GPU hours and money for a budget of tokens.
#pragma once

#include <cstdint>
#include <optional>

namespace fathom::plan {

struct Budget {
  std::optional<double> tokens;     // to train on
  std::optional<double> gpu_hours;  // known instead of reckoned from tokens
  int64_t gpus = 1;                 // that share the work
  std::optional<double>
      price_per_hour;  // US dollars for all of them together; unset: the listed price of one, times gpus
};

struct Cost {
  double gpu_hours = 0;
  double hours = 0;           // on all GPUs at once
  double price_per_hour = 0;  // of all GPUs together; 0: no price is known
  double dollars() const { return hours * price_per_hour; }
};

// tokens_per_second: of one GPU among all of them.
// listed_price: of one GPU for an hour; 0: not listed. nullopt where neither GPU hours nor tokens and their speed are
// known.
std::optional<Cost> cost_of(const Budget& budget, std::optional<double> tokens_per_second, double listed_price);

}  // namespace fathom::plan
