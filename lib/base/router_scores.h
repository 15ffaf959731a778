// How routers score experts.
#pragma once

#include <cstdint>

namespace fathom {

// What sets a router apart from one whose weights are the largest of a softmax over all (DeepSeek-AI 2024, arXiv
// 2412.19437, section 2.1.2).
struct RouterScores {
  bool sigmoid = false;  // of each expert by itself
  // A stored number of each expert, which no run trains, is added to the scores by which experts are chosen, not to
  // their weights.
  bool corrected = false;
  // Experts lie in so many groups of one size; those are open to the choice whose two best scores have the largest
  // sums.
  int64_t groups = 1, open_groups = 1;
  double scale = 1;  // of the weights, once they are divided by their sum
  bool operator==(const RouterScores&) const = default;
};

}  // namespace fathom
