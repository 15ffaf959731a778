// What is alive at an instant of the analytic estimate, and how it is written out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "footprint/footprint.h"
#include "plan/plan.h"

namespace fathom::plan {

// A tensor, while it is there.
struct Alive {
  const footprint::Bytes* tensor;
  memory::Component component;
  int64_t layer;  // from 1; 0: it belongs to none
  int64_t bytes;
};

// Tensors of one name and size as one line, with the number of layers that hold so many of them each.
std::vector<Analytic::Term> terms_of(const std::vector<Alive>& alive);

// Where a run is at an instant.
struct Place {
  const char *pass, *part;
  int64_t layer = 0;
  std::string in_words() const {
    std::string words = pass;
    if (*part != '\0') words.append(" of ").append(part);
    return layer > 0 ? words + " in layer " + std::to_string(layer) : words;
  }
};

}  // namespace fathom::plan
