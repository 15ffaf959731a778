// Tokens over speed, times price.
#include "plan/time/cost.h"

namespace fathom::plan {

std::optional<Cost> cost_of(const Budget& budget, std::optional<double> tokens_per_second, double listed_price) {
  constexpr double kSecondsPerHour = 3600;
  Cost cost;
  if (budget.gpu_hours) {
    cost.gpu_hours = *budget.gpu_hours;
  } else if (budget.tokens && tokens_per_second && *tokens_per_second > 0) {
    cost.gpu_hours = *budget.tokens / *tokens_per_second / kSecondsPerHour;
  } else {
    return std::nullopt;
  }
  const auto gpus = static_cast<double>(budget.gpus);
  cost.hours = cost.gpu_hours / gpus;
  cost.price_per_hour = budget.price_per_hour.value_or(listed_price * gpus);
  return cost;
}

}  // namespace fathom::plan
