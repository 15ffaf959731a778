// Asks the loss scale.
#include "train/settled.h"

#include <string>

#include "base/error.h"

namespace fathom::train {

void require_settled(const config::RunConfig& config, const Trainer& trainer, int64_t steps) {
  const std::optional<optim::LossScale>& scale = trainer.loss_scale();
  if (!scale || steps == 0 || scale->settled()) return;
  trainer.require_finite_weights("after step " + std::to_string(steps) + " ");
  throw Error(
      "no loss scale was found: " + std::to_string(scale->skipped_steps()) + " of " + std::to_string(steps) +
          " steps were skipped, the last one too, because their loss or gradients were not finite in FP16",
      instead_of_fp16(config) +
          ", or take more than 16 steps: each that is skipped halves the scale, until one fits or none is left");
}

}  // namespace fathom::train
