// What operators take on a GPU by themselves, as they were measured on its like: so that the time of a step can be
// added up from what it gives the GPU to do, one operator after the other.
//
// What was not measured is taken from its nearest: by what share of the hardware's speed the most similar products, or
// attention, were slower (inverse distances in the logarithms of their sides; Shepard 1968). So only the shares are
// interpolated, not times, which span six orders of magnitude.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "plan/time/arithmetic.h"
#include "plan/time/expected_time.h"

namespace fathom::plan {

// Of `batch` products out [m, n] = x [m, k] y [k, n].
struct ProductSides {
  int64_t m = 0, k = 0, n = 0, batch = 1;
};

// Of a fused kernel's pass over so many rows of equal length, causal.
struct AttentionSides {
  int64_t rows = 0, heads = 0, length = 0, head_size = 0;
  bool backward = false, cudnn = false;
};

// Seconds between kernels that a CUDA graph replays: on an H100 a step of 1,183 of them took 2.1 ms less than one by
// one.
inline constexpr double kRecordedGap = 0.9e-6;

class OperatorTimes {
 public:
  // Throws Error for another form; origin: what it calls the value.
  static OperatorTimes from_json(const Json& value, const std::string& origin);

  const std::string& device() const { return device_; }            // as the driver names it
  const std::string& measured_on() const { return measured_on_; }  // "2026-11-21"

  // In seconds. FP16 counts as BF16, E5M2 as E4M3, which are equally fast. What was measured of no shape takes its
  // share of the data sheet's speed as plan/time/expected_time.h has it.
  double product(DType type, const ProductSides& sides) const;
  // flops: of this pass, as Arithmetic counts them.
  double attention(DType type, const AttentionSides& sides, int64_t flops) const;
  // Of an operator that moves so many bytes; by those that were measured under its name, else by a plain sum of two
  // tensors.
  double stream(std::string_view op, int64_t bytes) const;
  // Between the end of a kernel and the begin of the next.
  double gap() const { return gap_; }
  // What a host gives the GPU a kernel in, within a step.
  double launch() const { return launch_; }

 private:
  struct Sample {
    std::array<double, 3> at;  // logarithms
    double share;              // of the hardware's speed
  };
  static double interpolated(const std::vector<Sample>& samples, const std::array<double, 3>& at);
  double flops_per_second(DType type) const;
  double least(DType type, const ProductSides& sides) const;

  std::string device_, measured_on_;
  double gap_ = 0, launch_ = 0;
  std::map<DType, double> flops_per_second_;  // of data sheets
  double bytes_per_second_ = 0;
  std::map<DType, std::vector<Sample>> products_;
  std::map<std::pair<bool, bool>, std::vector<Sample>> attention_;         // by backward, cudnn
  std::map<std::string, std::map<int64_t, double>, std::less<>> streams_;  // seconds by bytes
};

// The speed of the step whose operators were timed, for steps like it: what each kind of its work does in a second, in
// each of its parts and in all. The gaps between kernels are of what moves bytes, and so is what the GPU waits for a
// host that launches more slowly than it works, and that has not gone ahead in the parts before; of several processes
// not, which launch much that is of no layer. nullopt where nothing was timed.
std::optional<Throughput> throughput_of(const StepArithmetic& step, const OperatorTimes& times, int64_t processes);

}  // namespace fathom::plan
