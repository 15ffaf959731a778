// The factors of transformers' optimization.py: get_constant_schedule, …_with_warmup, get_linear_…, get_cosine_….
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom::optim {

double schedule_factor(config::Schedule schedule, int64_t step, int64_t total_steps, double warmup_steps) {
  if (schedule == config::Schedule::kConstant) return 1;
  const double warmup =
      warmup_steps < 1 ? std::ceil(static_cast<double>(total_steps) * warmup_steps) : std::floor(warmup_steps);
  const double position = static_cast<double>(step), total = static_cast<double>(total_steps);
  if (position < warmup) return position / std::max(1.0, warmup);
  const double remaining = std::max(1.0, total - warmup);
  switch (schedule) {
    case config::Schedule::kConstant:
    case config::Schedule::kConstantWithWarmup:
      return 1;
    case config::Schedule::kLinear:
      return std::max(0.0, (total - position) / remaining);
    case config::Schedule::kCosine: {
      const double progress = (position - warmup) / remaining;
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    }
  }
  return 1;
}

}  // namespace fathom::optim
