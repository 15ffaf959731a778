// By gathers over all ranks.
#include "train/agreement.h"

#include <algorithm>
#include <vector>

namespace fathom::train {

int largest_of_all(dist::Group* group, int number) {
  if (group == nullptr) return number;
  const std::vector<double> of_ranks = group->gather(number);
  return static_cast<int>(*std::max_element(of_ranks.begin(), of_ranks.end()));
}

bool as_first_finds(dist::Group* group, bool found) {
  return group == nullptr ? found : group->gather(found ? 1 : 0).front() != 0;
}

}  // namespace fathom::train
