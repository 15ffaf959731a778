// One row for each measurement.
#include "report/calibration_table.h"

#include <array>
#include <cstdio>

#include "base/bytes.h"
#include "report/table.h"

namespace fathom::report {
namespace {

std::string in_units(double value, double unit, const char* name) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value / unit, name);
  return text.data();
}

const char* precision(bool narrow) { return narrow ? "BF16" : "FP32"; }

}  // namespace

std::string format_calibration(const plan::Calibration& calibration) {
  std::string text = calibration.device + ", " + calibration.measured_on + "\n";
  if (!calibration.speeds.empty()) {
    Table table({{"products in", Align::kLeft},
                 {"width"},
                 {"threads"},
                 {"matrix products"},
                 {"attention"},
                 {"everything else"}});
    for (const plan::MeasuredSpeed& speed : calibration.speeds) {
      table.add_row({precision(speed.narrow), format_count(speed.width), format_count(speed.threads),
                     in_units(speed.matrix_flops_per_second, 1e9, "GFLOP/s"),
                     in_units(speed.attention_flops_per_second, 1e9, "GFLOP/s"),
                     in_units(speed.bytes_per_second, 1e9, "GB/s")});
    }
    text += table.format();
  }
  if (!calibration.overheads.empty()) {
    Table table({{"products in", Align::kLeft},
                 {"attention", Align::kLeft},
                 {"method", Align::kLeft},
                 {"checkpointing", Align::kLeft},
                 {"beneath the allocator"}});
    for (const plan::MeasuredOverhead& overhead : calibration.overheads) {
      table.add_row({precision(overhead.settings.narrow),
                     overhead.settings.attention == config::Attention::kMath ? "math" : "flash",
                     overhead.settings.method == config::Method::kLora ? "lora" : "full",
                     overhead.settings.checkpointing ? "yes" : "no", format_bytes(overhead.bytes)});
    }
    text += table.format();
  }
  return text;
}

}  // namespace fathom::report
