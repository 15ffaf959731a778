// Draws from a seed, in words.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/split_mix.h"

namespace fathom::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.below(static_cast<uint64_t>(most - least + 1)));
  }
  // Small ones as often as large ones.
  int64_t of_any_size(int64_t least, int64_t most) {
    const double low = std::log(static_cast<double>(least)), high = std::log(static_cast<double>(most) + 1);
    return std::clamp(static_cast<int64_t>(std::exp(low + random_.uniform() * (high - low))), least, most);
  }
  double uniform() { return random_.uniform(); }
  bool chance(double share) { return random_.uniform() < share; }
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[random_.below(values.size())];
  }

 private:
  SplitMix64 random_;
};

}  // namespace fathom::testing
