// One row for each measurement.
#include "report/calibration_table.h"

#include "base/bytes.h"
#include "base/numbers.h"
#include "report/table.h"

namespace fathom::report {
namespace {

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
                     format_quantity(speed.matrix_flops_per_second, "FLOP/s"),
                     format_quantity(speed.attention_flops_per_second, "FLOP/s"),
                     format_quantity(speed.bytes_per_second, "B/s")});
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
