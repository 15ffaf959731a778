// Shares of the hardware's speed, and what lies between them.
#include "plan/time/operator_times.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"

namespace fathom::plan {
namespace {

constexpr size_t kNeighbours = 6;
constexpr double kNearest = 0.05;       // of squared distances, so that what was measured counts for itself
constexpr double kLeastSeconds = 2e-6;  // of a kernel
constexpr const char* kPlain = "aten::add_";

constexpr int64_t kLargestSide = int64_t{1} << 50;  // also of bytes

double number(int64_t side) { return static_cast<double>(side); }

std::array<double, 3> logarithms(const ProductSides& sides) {
  return {std::log2(number(sides.m)), std::log2(number(sides.k)), std::log2(number(sides.n))};
}

std::array<double, 3> logarithms(const AttentionSides& sides) {
  return {std::log2(number(sides.rows)) + std::log2(number(sides.heads)), std::log2(number(sides.length)),
          std::log2(number(sides.head_size))};
}

double attention_flops(const AttentionSides& sides) {
  const double pairs = number(sides.length) * number(sides.length + 1) / 2;
  return (sides.backward ? 10.0 : 4.0) * pairs * number(sides.rows) * number(sides.heads) * number(sides.head_size);
}

double positive(const Json& value, const char* key) {
  const auto given = value.at(key).get<double>();
  if (!std::isfinite(given) || given <= 0) throw Error(std::string(key) + " is no positive number");
  return given;
}

int64_t side(const Json& value, const char* key) {
  const Json& given = value.at(key);
  if (!given.is_number_integer()) throw Error(std::string(key) + " is no whole number");
  const auto whole = given.get<int64_t>();
  if (whole < 1 || whole > kLargestSide) throw Error(std::string(key) + " is not between 1 and 2^50");
  return whole;
}

}  // namespace

OperatorTimes OperatorTimes::from_json(const Json& value, const std::string& origin) try {
  constexpr double kMicro = 1e-6;
  OperatorTimes times;
  times.device_ = value.at("device").get<std::string>();
  times.measured_on_ = value.at("measured_on").get<std::string>();
  times.gap_ = positive(value, "gap_us") * kMicro;
  times.launch_ = positive(value, "launch_us") * kMicro;
  times.bytes_per_second_ = positive(value, "memory_gb_per_second") * 1e9;
  for (const auto& [type, tflops] : value.at("tflops").items()) {
    if (tflops.get<double>() <= 0) throw Error("tflops of " + type + " is no positive number");
    times.flops_per_second_[dtype_from_name(type)] = tflops.get<double>() * 1e12;
  }
  for (const DType type : {DType::kBF16, DType::kF32}) {
    if (!times.flops_per_second_.contains(type)) throw Error("tflops lacks " + std::string(dtype_name(type)));
  }
  for (const Json& each : value.at("products")) {
    const DType type = dtype_from_name(each.at("type").get<std::string>());
    const ProductSides sides{side(each, "m"), side(each, "k"), side(each, "n")};
    const double share = times.least(type, sides) / (positive(each, "us") * kMicro);
    times.products_[type].push_back({logarithms(sides), share});
  }
  for (const Json& each : value.at("attention")) {
    const AttentionSides sides{side(each, "rows"),
                               side(each, "heads"),
                               side(each, "length"),
                               side(each, "head_size"),
                               each.at("backward").get<bool>(),
                               each.at("cudnn").get<bool>()};
    const double share =
        attention_flops(sides) / times.flops_per_second(DType::kBF16) / (positive(each, "us") * kMicro);
    times.attention_[{sides.backward, sides.cudnn}].push_back({logarithms(sides), share});
  }
  for (const Json& each : value.at("streams")) {
    times.streams_[each.at("operator").get<std::string>()][side(each, "bytes")] = positive(each, "us") * kMicro;
  }
  if (!times.streams_.contains(kPlain)) throw Error(std::string("streams has no ") + kPlain);
  return times;
} catch (const nlohmann::json::exception& error) {
  throw Error(origin + " has another form than expected: " + reason_of(error));
} catch (const Error& error) {
  throw Error(origin + ": " + error.what());
}

// Of a type that the table does not name as FP32's.
double OperatorTimes::flops_per_second(DType type) const {
  const auto found = flops_per_second_.find(type);
  return found == flops_per_second_.end() ? flops_per_second_.at(DType::kF32) : found->second;
}

double OperatorTimes::least(DType type, const ProductSides& sides) const {
  const double m = number(sides.m), k = number(sides.k), n = number(sides.n), batch = number(sides.batch);
  const double bytes = (m * k + k * n + m * n) * number(size_of(type));
  return std::max(
      {batch * 2 * m * k * n / flops_per_second(type), batch * bytes / bytes_per_second_, kLeastSeconds / 2});
}

double OperatorTimes::interpolated(const std::vector<Sample>& samples, const std::array<double, 3>& at) {
  std::vector<std::pair<double, double>> nearest;  // squared distances, and shares
  nearest.reserve(samples.size());
  for (const Sample& sample : samples) {
    double squared = 0;
    for (size_t i = 0; i < at.size(); ++i) squared += (sample.at[i] - at[i]) * (sample.at[i] - at[i]);
    nearest.emplace_back(squared, sample.share);
  }
  const size_t count = std::min(kNeighbours, nearest.size());
  std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(count), nearest.end());
  double weights = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double weight = std::pow(nearest[i].first + kNearest, -3);
    weights += weight;
    sum += weight * nearest[i].second;
  }
  return sum / weights;
}

double OperatorTimes::product(DType type, const ProductSides& sides) const {
  if (type == DType::kF16) type = DType::kBF16;
  if (type == DType::kF8E5M2) type = DType::kF8E4M3;
  const auto found = products_.find(type);
  const double share = found == products_.end() ? kMatrixEfficiency : interpolated(found->second, logarithms(sides));
  return least(type, sides) / share;
}

double OperatorTimes::attention(DType type, const AttentionSides& sides, int64_t flops) const {
  const auto found = attention_.find({sides.backward, sides.cudnn});
  const bool measured = size_of(type) == 2 && found != attention_.end();
  const double share = measured ? interpolated(found->second, logarithms(sides)) : kAttentionEfficiency;
  return static_cast<double>(flops) / flops_per_second(size_of(type) == 2 ? DType::kBF16 : type) / share;
}

double OperatorTimes::stream(std::string_view op, int64_t bytes) const {
  if (bytes == 0) return 0;
  const auto found = streams_.find(op);
  const std::map<int64_t, double>& measured = found == streams_.end() ? streams_.find(kPlain)->second : found->second;
  const auto rate = [](const std::pair<const int64_t, double>& each) {
    return static_cast<double>(each.first) / each.second;
  };
  const auto above = measured.lower_bound(bytes);
  double per_second = 0;
  if (above == measured.begin()) {
    per_second = rate(*above);
  } else if (above == measured.end()) {
    per_second = rate(*std::prev(above));
  } else {
    const auto below = std::prev(above);
    const double part = std::log(static_cast<double>(bytes) / static_cast<double>(below->first)) /
                        std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
    per_second = rate(*below) + part * (rate(*above) - rate(*below));
  }
  return std::max(kLeastSeconds, static_cast<double>(bytes) / per_second);
}

namespace {

Speeds speeds_of(const Arithmetic& work, const ComputingTime& took) {
  const auto per_second = [](int64_t amount, double seconds) {
    return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
  };
  return {per_second(work.matrix_flops, took.matrix_seconds), per_second(work.attention_flops, took.attention_seconds),
          per_second(work.bytes_moved, took.memory_seconds)};
}

}  // namespace

std::optional<Throughput> throughput_of(const StepArithmetic& step, const OperatorTimes& times, int64_t processes) {
  StepParts<ComputingTime> took;
  double device_ends = 0, host_ends = 0;
  for (const memory::Phase phase : StepArithmetic::kPhases) {
    const DeviceTime& device = step.of(phase).device;
    const auto recorded = static_cast<double>(device.recorded);
    const double by_host = static_cast<double>(device.launches) - recorded;
    const double gaps = times.gap() * by_host + kRecordedGap * recorded;
    ComputingTime& part = took.of(phase);
    part = {1e-9 * static_cast<double>(device.matrix_ns), 1e-9 * static_cast<double>(device.attention_ns),
            1e-9 * static_cast<double>(device.memory_ns) + gaps};
    if (processes == 1) host_ends += times.launch() * by_host;
    device_ends += part.seconds();
    const double waiting = std::max(0.0, host_ends - device_ends);
    part.memory_seconds += waiting;
    device_ends += waiting;
  }
  const DeviceTime device = step.whole().device;
  if (device.matrix_ns + device.attention_ns + device.memory_ns == 0) return std::nullopt;
  const Speeds whole = speeds_of(step.whole(), took.whole());
  Throughput speed;
  speed.matrix_flops_per_second = whole.matrix_flops_per_second;
  speed.attention_flops_per_second = whole.attention_flops_per_second;
  speed.bytes_per_second = whole.bytes_per_second;
  speed.parts.emplace();
  for (const memory::Phase phase : StepArithmetic::kPhases) {
    speed.parts->of(phase) = speeds_of(step.of(phase), took.of(phase));
  }
  speed.source = "operators measured on " + times.device() + " on " + times.measured_on();
  return speed;
}

}  // namespace fathom::plan
