// A run that allocates nothing there is not.
#include "plan/counted.h"

#include <optional>

namespace fathom::plan {
namespace {

// reserved: by the caching allocator, where there is one.
std::string why_uncounted(const memory::Memory& memory, std::optional<int64_t> reserved, const std::string& whose) {
  const std::string end = ": its figures are of nothing, and none is to be trusted";
  if (memory.peak <= 0) return whose + " ledger saw no allocation at all" + end;
  if (reserved && *reserved <= 0) return whose + " caching allocator reserved nothing at all" + end;
  return "";
}

}  // namespace

std::string why_uncounted(const Plan& plan) {
  return why_uncounted(plan.dry_run, plan.gpu ? std::optional(plan.gpu->reserved) : std::nullopt, "the dry run's");
}

std::string why_uncounted(const Measured& measured) {
  return why_uncounted(measured.memory, measured.reserved, "the run's");
}

}  // namespace fathom::plan
