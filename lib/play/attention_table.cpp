// One row for each length: what either kernel takes, and how they compare.
#include "play/attention_table.h"

#include "base/bytes.h"
#include "base/numbers.h"
#include "report/table.h"

namespace fathom::play {
namespace {

std::string bytes_of(const AttentionCost& cost) {
  if (cost.dry_run) return format_bytes(*cost.dry_run);
  return cost.measured ? format_bytes(*cost.measured) : std::string(report::kMissing);
}

// "+0", or how far the ledger was from the dry run.
std::string difference_of(const AttentionCost& cost) {
  if (!cost.dry_run || !cost.measured) return std::string(report::kMissing);
  const int64_t difference = *cost.measured - *cost.dry_run;
  return std::string(difference > 0 ? "+" : "").append(format_count(difference));
}

std::string time_of(const AttentionCost& cost) {
  return cost.seconds ? format_seconds(*cost.seconds) : std::string(report::kMissing);
}

std::string ratio(const auto& above, const auto& below) {
  if (!above || !below || *below == 0) return std::string(report::kMissing);
  return format_decimal(static_cast<double>(*above) / static_cast<double>(*below), 1) + "×";
}

}  // namespace

std::string format_attention(const std::vector<AttentionPoint>& points) {
  report::Table table({{"tokens"},
                       {"math"},
                       {"flash"},
                       {"less by"},
                       {"measured − dry run", report::Align::kRight},
                       {"math, time"},
                       {"flash, time"},
                       {"faster by"}});
  for (const AttentionPoint& point : points) {
    table.add_row({format_count(point.length), bytes_of(point.math), bytes_of(point.flash),
                   ratio(point.math.dry_run, point.flash.dry_run),
                   difference_of(point.math) + ", " + difference_of(point.flash), time_of(point.math),
                   time_of(point.flash), ratio(point.math.seconds, point.flash.seconds)});
  }
  return "One layer's attention, forward and backward, one sequence: bytes at the peak beside its inputs\n" +
         table.format();
}

}  // namespace fathom::play
