// Lays out a plan and its measurement.
#include "report/memory_table.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/bytes.h"
#include "base/numbers.h"
#include "plan/bound.h"
#include "plan/fit.h"
#include "plan/host.h"
#include "report/table.h"

namespace fathom::report {
namespace {

bool is_point(const plan::ByteRange& range) { return range.lowest == range.highest; }

using memory::Component;
using memory::Memory;
using memory::Phase;
using Columns = std::vector<Table::Column>;
using Cells = std::vector<std::string>;

std::string name(auto of) { return std::string(of); }

std::string signed_count(int64_t count) { return std::string(count > 0 ? "+" : "").append(format_count(count)); }

// The figure before it once more, in GiB: what is left out first where the terminal is narrow.
const Table::Column kRounded{.title = "", .gives_way = 1};

void append_figures(Cells& cells, int64_t analytic, int64_t dry_run, const int64_t* measured) {
  cells.push_back(format_count(analytic));
  cells.push_back(format_count(dry_run));
  cells.push_back(format_bytes(dry_run));
  if (measured) {
    cells.push_back(format_count(*measured));
    cells.push_back(signed_count(*measured - dry_run));
  } else {
    cells.push_back(format_deviation(analytic, dry_run));
  }
}

std::string component_table(const plan::Plan& plan, const Memory* measured) {
  Columns columns = {{"at the peak", Align::kLeft}, {"analytic"}, {"dry run"}, kRounded};
  if (measured) {
    columns.insert(columns.end(), {{"measured"}, {"off by"}});
  } else {
    columns.push_back({"analytic off by"});
  }
  Table table(columns);
  for (const Component component : memory::kComponents) {
    Cells cells = {name(component_name(component))};
    const int64_t seen = measured ? measured->at_peak[component] : 0;
    append_figures(cells, plan.analytic.at_peak[component], plan.dry_run.at_peak[component],
                   measured ? &seen : nullptr);
    table.add_row(cells);
  }
  table.add_rule();
  Cells cells = {"total"};
  append_figures(cells, plan.analytic.peak, plan.dry_run.peak, measured ? &measured->peak : nullptr);
  table.add_row(cells);
  return table.format();
}

std::string phase_table(const Memory& dry_run, const Memory* measured) {
  Columns columns = {{"phase", Align::kLeft}, {"peak, dry run"}, kRounded};
  if (measured) columns.insert(columns.end(), {{"measured"}, {"off by"}});
  columns.push_back({.title = "at its end", .gives_way = 2});
  if (measured) columns.push_back({"off by"});
  Table table(columns);
  for (const Phase phase : memory::kPhases) {
    const Memory::PhaseMemory* planned = dry_run.phase(phase).seen ? &dry_run.phase(phase) : nullptr;
    const Memory::PhaseMemory* seen = measured && measured->phase(phase).seen ? &measured->phase(phase) : nullptr;
    if (!planned && !seen) continue;
    const auto difference = [&](auto of) {
      return planned && seen ? signed_count(of(*seen) - of(*planned)) : name(kMissing);
    };
    const auto peak = [](const Memory::PhaseMemory& memory) { return memory.peak; };
    const auto end = [](const Memory::PhaseMemory& memory) { return memory.end.total(); };
    Cells cells = {name(phase_name(phase))};
    cells.push_back(planned ? format_count(planned->peak) : name(kMissing));
    cells.push_back(planned ? format_bytes(planned->peak) : "");
    if (measured) {
      cells.push_back(seen ? format_count(seen->peak) : name(kMissing));
      cells.push_back(difference(peak));
    }
    cells.push_back(planned ? format_count(end(*planned)) : name(kMissing));
    if (measured) cells.push_back(difference(end));
    table.add_row(cells);
  }
  return table.format();
}

std::string allocator_table(const plan::GpuBytes& gpu, const plan::Measured* measured) {
  const bool ranges = !is_point(gpu.allocated_range) || !is_point(gpu.reserved_range);
  Columns columns = {{"GPU allocator, peak", Align::kLeft}, {"dry run"}, kRounded};
  if (measured) columns.insert(columns.end(), {{"measured"}, {ranges ? "in range" : "off by"}});
  Table table(columns);
  const auto add = [&](const std::string& title, int64_t bytes, const plan::ByteRange& range,
                       const std::optional<int64_t>& seen) {
    Cells cells = {title, format_count(bytes), format_bytes(bytes)};
    if (measured) {
      cells.push_back(seen ? format_count(*seen) : name(kMissing));
      if (!seen) {
        cells.push_back(name(kMissing));
      } else if (ranges) {
        cells.push_back(range.contains(*seen) ? "yes" : "no");
      } else {
        cells.push_back(signed_count(*seen - bytes));
      }
    }
    table.add_row(cells);
  };
  const std::optional<int64_t> none;
  add("requested", gpu.requested, {gpu.requested, gpu.requested},
      measured ? std::optional(measured->memory.peak) : none);
  add("allocated", gpu.allocated, gpu.allocated_range, measured ? measured->allocated : none);
  add("reserved", gpu.reserved, gpu.reserved_range, measured ? measured->reserved : none);
  if (!ranges) return table.format();
  if (gpu.bound) {
    return table.format() + "Of a long run representatives were played: it allocates at most " +
           format_count(gpu.allocated_range.highest) + " and reserves at most " +
           format_count(gpu.reserved_range.highest) + " bytes, a bound\n";
  }
  return table.format() + format_placements(gpu.placements, gpu.allocated_range, gpu.reserved_range) + "\n";
}

std::string describe_run(const plan::Plan& plan) {
  const plan::Workload& workload = plan.workload;
  std::string text = "Memory on ";
  if (plan.target.device == config::Device::kCuda) {
    text += "GPU " + plan.target.name + " (" + format_bytes(plan.target.capacity_bytes) + ")";
  } else {
    text +=
        plan.target.threads == 1 ? "the CPU (1 thread)" : "the CPU (" + format_count(plan.target.threads) + " threads)";
  }
  text += ", " + plan.target.attention_kernel + "\n" + format_count(workload.parameters) + " parameters, ";
  text += workload.trains_all() ? "all" : format_count(workload.trained_parameters);
  text += " trained";
  if (workload.base) {
    text += ", " + format_count(workload.quantized_parameters) + " in ";
    text += quant::name_of(*workload.base);
  }
  const auto tokens = [](const schedule::BatchShape& batch) {
    return batch.rows * (batch.length + batch.source_length);
  };
  const schedule::BatchShape* largest = nullptr;
  size_t micro_batches = 0;
  for (const schedule::StepShape& step : workload.steps) {
    for (const schedule::BatchShape& batch : step) {
      if (!largest || tokens(batch) > tokens(*largest)) largest = &batch;
    }
    micro_batches = std::max(micro_batches, step.size());
  }
  if (largest) {
    if (largest->source_length > 0) {
      text += "; batches of up to " + format_count(largest->rows) + " × " + format_count(largest->source_length) +
              " source and " + format_count(largest->length) + " target tokens";
    } else if (largest->document_lengths.empty()) {
      text += "; batches of up to " + format_count(largest->rows) + " × " + format_count(largest->length) + " tokens";
    } else {
      text += "; packed batches of up to " + format_count(largest->length) + " tokens";
    }
    if (micro_batches > 1) text += ", several to a step";
  }
  return text + "\nDry run: " + format_count(plan.steps_played) +
         (plan.steps_played == 1 ? " step in " : " steps in ") + format_seconds(plan.seconds) + "\n";
}

std::string describe_fit(const plan::Plan& plan) {
  const std::string capacity = format_bytes(plan.target.capacity_bytes);
  const int64_t missing = plan::missing_bytes(plan);
  if (missing > 0) {
    const std::string short_of =
        "Does not fit: " + plan::describe_capacity(plan.target) + ", and " + format_bytes(missing) + " are missing";
    const std::string remedy = " `fathom advise` finds what fits.\n";
    if (!plan.gpu) return short_of + "." + remedy;
    return short_of + " (" + format_count(missing) + " bytes). The figures above are those of a run without limit." +
           remedy;
  }
  if (plan.gpu) {
    const bool fits = plan::fit_of(plan) == plan::Fit::kFits;
    const std::string share = plan.gpu->overhead ? format_bytes(*plan.gpu->overhead) + " for the driver (calibrated)"
                                                 : "the driver's own share (not calibrated: context, loaded kernels)";
    const std::string sum =
        "at most " + format_bytes(plan.gpu->reserved_range.highest) + " reserved and " + share + " of " + capacity;
    return fits ? "Fits: " + sum + ".\n" : "Near the limit, not proved to fit: " + sum + ".\n";
  }
  if (plan.target.capacity_bytes == 0) return "";
  const std::string tensors =
      format_bytes(plan::needed_bytes(plan)) +
      (plan.dry_run.peak_with_scratch > plan.dry_run.peak ? " of tensors and kernel scratch" : " of tensors");
  if (plan.target.within_budget) return "Fits: " + tensors + ", of memory_budget's " + capacity + ".\n";
  const bool fits = plan::fit_of(plan) == plan::Fit::kFits;
  return (fits ? "Fits: " : "Near the limit, not proved to fit: ") + tensors + ", and at most " +
         format_bytes(plan::most_resident_growth(plan)) + " with all that the process takes besides, of the " +
         capacity + " that are free here.\n";
}

std::string describe_rest(const plan::Plan& plan, const plan::Measured& measured) {
  std::string text;
  if (plan.target.device == config::Device::kCpu) {
    text += "Kernel scratch (what operators take and give back within one call; not in the figures above): " +
            format_bytes(measured.memory.kernel_scratch) + " measured, at most " +
            format_bytes(plan.dry_run.kernel_scratch) + " predicted\n";
  }
  if (measured.resident_growth) {
    text += "Resident memory grew by " + format_bytes(*measured.resident_growth) + ", at most " +
            format_bytes(plan::most_resident_growth(plan)) +
            " predicted: " + format_bytes(*measured.resident_growth - measured.memory.peak) +
            " beside the tensors (code, scratch, freed memory kept)\n";
  }
  if (plan.offloaded > 0) {
    text += "In the host's memory, pinned: " + format_bytes(measured.offloaded) + " measured, " +
            format_bytes(plan.offloaded) + " predicted\n";
  }
  if (measured.device_growth && measured.reserved) {
    text += "The driver reports " + format_bytes(*measured.device_growth) + ": " +
            format_bytes(*measured.device_growth - *measured.reserved) + " beside the caching allocator, " +
            (plan.gpu && plan.gpu->overhead ? format_bytes(*plan.gpu->overhead) + " as calibrated" : "not calibrated") +
            "\n";
  }
  return text;
}

// Collects differences; the first few are named.
class Differences {
 public:
  void compare(const std::string& what, int64_t dry_run, int64_t measured) {
    if (dry_run == measured) return;
    if (++count_ <= kNamed) text_ += (text_.empty() ? "" : "; ") + what + " " + signed_count(measured - dry_run);
  }
  void compare(const std::string& what, const memory::ComponentBytes& dry_run, const memory::ComponentBytes& measured) {
    for (const Component component : memory::kComponents) {
      compare(name(component_name(component)) + " " + what, dry_run[component], measured[component]);
    }
  }
  int count() const { return count_; }
  std::string text() const {
    if (count_ <= kNamed) return text_;
    return text_ + "; and " + std::to_string(count_ - kNamed) + " more";
  }

 private:
  static constexpr int kNamed = 5;
  int count_ = 0;
  std::string text_;
};

}  // namespace

std::string describe_agreement(const Memory& dry_run, const Memory& measured, bool ended_early) {
  Differences differences;
  differences.compare("peak", dry_run.peak, measured.peak);
  differences.compare("at the peak", dry_run.at_peak, measured.at_peak);
  differences.compare("at its maximum", dry_run.maximum, measured.maximum);
  std::string compared, alone;
  for (const Phase phase : memory::kPhases) {
    const Memory::PhaseMemory& planned = dry_run.phase(phase);
    const Memory::PhaseMemory& seen = measured.phase(phase);
    const std::string phase_is = name(phase_name(phase));
    if (planned.seen != seen.seen) {
      alone += (alone.empty() ? "" : ", ") + phase_is + (seen.seen ? " (measured only)" : " (dry run only)");
    } else if (seen.seen) {
      compared += (compared.empty() ? "" : ", ") + phase_is;
      differences.compare("peak of " + phase_is, planned.peak, seen.peak);
      differences.compare("at the peak of " + phase_is, planned.at_peak, seen.at_peak);
      differences.compare("at the end of " + phase_is, planned.end, seen.end);
    }
  }
  std::string text =
      differences.count() == 0
          ? "Dry run and measured are equal to the byte: the peak, every component at it and at its own maximum"
      : ended_early && measured.peak <= dry_run.peak
          ? "The run ended before the last step of its plan, and not every batch that was planned for came (measured − "
            "dry run, in bytes): " +
                differences.text()
          : "Dry run and measured differ (measured − dry run, in bytes): " + differences.text();
  if (differences.count() == 0 && !compared.empty()) text += ", and the phases " + compared;
  text += ".";
  if (!alone.empty()) text += " Not compared: " + alone + ".";
  return text + "\n";
}

std::string format_placements(int64_t placements, const plan::ByteRange& allocated, const plan::ByteRange& reserved) {
  const auto range = [](const plan::ByteRange& of) {
    return format_count(of.lowest) + (is_point(of) ? "" : " … " + format_count(of.highest));
  };
  return "Over " + format_count(placements) + " placements of the allocator's segments: allocated " + range(allocated) +
         ", reserved " + range(reserved);
}

std::string format_plan(const plan::Plan& plan) {
  struct Part {
    std::string name;
    int64_t bytes;
  };
  std::vector<Part> parts;
  parts.reserve(memory::kComponents.size());
  for (const Component component : memory::kComponents) {
    parts.push_back({name(component_name(component)), plan.dry_run.at_peak[component]});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
  std::string text = "Predicted peak: " + format_bytes(plan.dry_run.peak) + ", of which";
  for (size_t i = 0; i < 4; ++i) {
    if (parts[i].bytes > 0) text += (i == 0 ? " " : ", ") + parts[i].name + " " + format_bytes(parts[i].bytes);
  }
  return folded(describe_run(plan) + text + "\n" + describe_fit(plan));
}

std::string format_memory(const plan::Comparison& comparison, bool ended_early) {
  const plan::Plan& plan = comparison.plan;
  const plan::Measured* measured = comparison.measured ? &*comparison.measured : nullptr;
  const Memory* memory = measured ? &measured->memory : nullptr;
  std::ostringstream text;
  text << describe_run(plan) << "\n" << component_table(plan, memory) << "\n" << phase_table(plan.dry_run, memory);
  if (plan.gpu) text << "\n" << allocator_table(*plan.gpu, measured);
  text << "\n";
  if (measured == nullptr) {
    text << describe_fit(plan);
    return folded(text.str());
  }
  if (plan.target.phantom) {
    text << "Measured on a phantom GPU: the allocator is LibTorch's own, the arithmetic is missing.\n";
  }
  text << describe_rest(plan, *measured) << describe_agreement(plan.dry_run, *memory, ended_early);
  return folded(text.str());
}

}  // namespace fathom::report
