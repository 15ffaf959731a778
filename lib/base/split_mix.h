// A generator of 64 random bits whose whole state is one integer, so that a seed and a count say everything.
#pragma once

#include <cstdint>

namespace fathom {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }
  // Uniform in [0, bound): draws that would favour small numbers are thrown away.
  uint64_t below(uint64_t bound) {
    const uint64_t unfair = -bound % bound;  // 2^64 mod bound
    uint64_t draw = next();
    while (draw < unfair) draw = next();
    return draw % bound;
  }
  // Uniform in [0, 1), in steps of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

// A hash of numbers in their order; not against an adversary.
class NumberHash {
 public:
  void add(uint64_t number) { hash_ = SplitMix64(hash_ ^ number).next(); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace fathom
