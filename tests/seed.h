// The seed of what tests draw: the same at every run of a commit, so that what fails once fails again.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

namespace fathom::testing {

// FATHOM_TEST_SEED of the environment, which scripts/test derives from the commit; without it a fixed one. Prints it.
inline uint64_t seed() {
  const char* given = std::getenv("FATHOM_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : 20261123;
  std::cout << "FATHOM_TEST_SEED=" << seed << " draws this again" << std::endl;
  return seed;
}

}  // namespace fathom::testing
