// Kept by sizes: layers have the same.
#include "plan/estimate/single_updates.h"

#include "footprint/optimizer.h"

namespace fathom::plan {

std::vector<const footprint::Tensors*> SingleUpdates::of(const Operator& each) {
  std::vector<const footprint::Tensors*> moments;
  for (const footprint::Tensors* gradients : {&each.made_with, &each.gradients}) {
    for (const footprint::Bytes& gradient : *gradients) {
      for (const footprint::Tensors& moment : of_parameter(gradient)) moments.push_back(&moment);
    }
  }
  return moments;
}

const std::vector<footprint::Tensors>& SingleUpdates::of_parameter(const footprint::Bytes& gradient) {
  const Product& sizes = gradient.product;  // the parameter's sides, and the bytes of a number
  const footprint::TrainedSizes trained{sizes.front().count, sizes.size() > 2 ? sizes[1].count : 0, sizes.back().count};
  const auto [found, is_new] = by_sizes_.try_emplace({trained.rows, trained.columns, trained.bytes});
  if (is_new) found->second = footprint::update_footprint(run_, {trained}, cuda_, /*scales_loss=*/false);
  return found->second;
}

}  // namespace fathom::plan
