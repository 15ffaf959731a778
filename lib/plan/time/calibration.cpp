// Records of measured devices, and what plans take from them.
#include "plan/time/calibration.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

constexpr int kSchemaVersion = 1;
constexpr size_t kLargestFile = size_t{1} << 20, kMostEntries = 1000, kLongestText = 200;
constexpr double kMostPerSecond = 1e18;
constexpr int64_t kMostBytes = int64_t{1} << 45;

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(origin + ": " + what, "delete the file and measure again: fathom doctor --calibrate");
}

// One object, whose keys must all be known and sound.
class Reader {
 public:
  Reader(const Json& value, std::string origin, std::vector<const char*> keys)
      : value_(value), origin_(std::move(origin)) {
    if (!value.is_object()) refuse(origin_, "expected an object");
    for (const auto& [key, ignored] : value.items()) {
      const bool known = std::any_of(keys.begin(), keys.end(), [&](const char* each) { return key == each; });
      if (!known) refuse(origin_, "unknown key '" + key.substr(0, kLongestText) + "'");
    }
    for (const char* key : keys) {
      if (!value.contains(key)) refuse(origin_, std::string("has no ") + key);
    }
  }

  std::string text(const char* key) const {
    const Json& value = value_[key];
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText) expected(key, "a short text");
    const std::string text = value.get<std::string>();
    const bool printable = std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; });
    if (!printable) expected(key, "a text of one line");
    return text;
  }
  int64_t integer(const char* key, int64_t least, int64_t most) const {
    const Json& value = value_[key];
    const bool small =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= 1ULL << 62);
    if (!small || value.get<int64_t>() < least || value.get<int64_t>() > most) {
      expected(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value.get<int64_t>();
  }
  double rate(const char* key) const {
    const Json& value = value_[key];
    const double number = value.is_number() ? value.get<double>() : 0;
    if (!std::isfinite(number) || number <= 0 || number > kMostPerSecond) expected(key, "a number above 0");
    return number;
  }
  bool choice(const char* key, const char* no, const char* yes) const {
    const Json& value = value_[key];
    if (value != no && value != yes) expected(key, std::string("\"") + no + "\" or \"" + yes + "\"");
    return value == yes;
  }
  bool flag(const char* key) const {
    if (!value_[key].is_boolean()) expected(key, "true or false");
    return value_[key].get<bool>();
  }
  const Json& list(const char* key) const {
    if (!value_[key].is_array() || value_[key].size() > kMostEntries) expected(key, "a list");
    return value_[key];
  }

 private:
  [[noreturn]] void expected(const char* key, const std::string& what) const {
    refuse(origin_, std::string(key) + ": expected " + what);
  }

  const Json& value_;
  std::string origin_;
};

// Rates at one number of threads by width, or at one width by threads: a straight line over the logarithms.
double interpolate(const std::map<int64_t, double>& rates, int64_t at) {
  const auto above = rates.lower_bound(at);
  if (above == rates.end()) return rates.rbegin()->second;
  if (above == rates.begin() || above->first == at) return above->second;
  const auto below = std::prev(above);
  const double position = std::log(static_cast<double>(at) / static_cast<double>(below->first)) /
                          std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  return below->second * std::pow(above->second / below->second, position);
}

}  // namespace

KernelSettings kernel_settings(const arch::Run& run) {
  return {size_of(run.precision.computed) == 2, run.config.attn_implementation, run.config.method,
          run.config.gradient_checkpointing};
}

Json to_json(const Calibration& calibration) {
  Json speeds = Json::array(), overheads = Json::array();
  for (const MeasuredSpeed& speed : calibration.speeds) {
    speeds.push_back({{"threads", speed.threads},
                      {"precision", speed.narrow ? "bfloat16" : "float32"},
                      {"width", speed.width},
                      {"matrix_flops_per_second", speed.matrix_flops_per_second},
                      {"attention_flops_per_second", speed.attention_flops_per_second},
                      {"bytes_per_second", speed.bytes_per_second}});
  }
  for (const MeasuredOverhead& overhead : calibration.overheads) {
    const KernelSettings& settings = overhead.settings;
    overheads.push_back({{"precision", settings.narrow ? "bfloat16" : "float32"},
                         {"attention", settings.attention == config::Attention::kMath ? "math" : "flash"},
                         {"method", settings.method == config::Method::kLora ? "lora" : "full"},
                         {"gradient_checkpointing", settings.checkpointing},
                         {"bytes", overhead.bytes}});
  }
  return {{"schema_version", kSchemaVersion},
          {"device", calibration.device},
          {"measured_on", calibration.measured_on},
          {"speeds", speeds},
          {"overheads", overheads}};
}

Calibration calibration_from_json(const Json& value, const std::string& origin) {
  const Reader reader(value, origin, {"schema_version", "device", "measured_on", "speeds", "overheads"});
  reader.integer("schema_version", kSchemaVersion, kSchemaVersion);
  Calibration calibration;
  calibration.device = reader.text("device");
  calibration.measured_on = reader.text("measured_on");
  for (const Json& each : reader.list("speeds")) {
    const Reader speed(
        each, origin + ": speeds",
        {"threads", "precision", "width", "matrix_flops_per_second", "attention_flops_per_second", "bytes_per_second"});
    calibration.speeds.push_back({speed.integer("threads", 1, 1 << 16),
                                  speed.choice("precision", "float32", "bfloat16"), speed.integer("width", 1, 1 << 20),
                                  speed.rate("matrix_flops_per_second"), speed.rate("attention_flops_per_second"),
                                  speed.rate("bytes_per_second")});
  }
  for (const Json& each : reader.list("overheads")) {
    const Reader overhead(each, origin + ": overheads",
                          {"precision", "attention", "method", "gradient_checkpointing", "bytes"});
    KernelSettings settings;
    settings.narrow = overhead.choice("precision", "float32", "bfloat16");
    settings.attention =
        overhead.choice("attention", "flash", "math") ? config::Attention::kMath : config::Attention::kFlash;
    settings.method = overhead.choice("method", "full", "lora") ? config::Method::kLora : config::Method::kFull;
    settings.checkpointing = overhead.flag("gradient_checkpointing");
    calibration.overheads.push_back({settings, overhead.integer("bytes", 0, kMostBytes)});
  }
  return calibration;
}

std::filesystem::path calibration_file(const std::filesystem::path& folder, const std::string& device) {
  std::string name;
  for (const unsigned char c : device.substr(0, kLongestText)) {
    if (std::isalnum(c) != 0) {
      name.push_back(static_cast<char>(std::tolower(c)));
    } else if (!name.empty() && name.back() != '-') {
      name.push_back('-');
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return folder / ((name.empty() ? std::string("device") : name) + ".json");
}

std::optional<Calibration> load_calibration(const std::filesystem::path& folder, const std::string& device) {
  const std::filesystem::path file = calibration_file(folder, device);
  if (!std::filesystem::exists(file)) return std::nullopt;
  Calibration calibration =
      calibration_from_json(parse_json(read_file(file, kLargestFile), file.string()), file.string());
  if (calibration.device != device) refuse(file.string(), "belongs to another device, " + calibration.device);
  return calibration;
}

std::filesystem::path save_calibration(const std::filesystem::path& folder, const Calibration& calibration) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = calibration_file(folder, calibration.device);
  write_file_atomically(file, format_json(to_json(calibration)));
  return file;
}

std::optional<Throughput> throughput_of(const Calibration& calibration, const arch::Run& run, int64_t threads) {
  if (run.precision.computed == DType::kF16) return std::nullopt;  // FP32 and BF16 are measured
  const bool narrow = kernel_settings(run).narrow;
  std::map<int64_t, std::vector<MeasuredSpeed>> by_threads;
  for (const MeasuredSpeed& speed : calibration.speeds) {
    if (speed.narrow == narrow) by_threads[speed.threads].push_back(speed);
  }
  if (by_threads.empty() || threads < by_threads.begin()->first || threads > by_threads.rbegin()->first) {
    return std::nullopt;
  }
  const auto rate = [&](double MeasuredSpeed::*member) {
    std::map<int64_t, double> rates;
    for (const auto& [count, speeds] : by_threads) {
      std::map<int64_t, double> widths;
      for (const MeasuredSpeed& speed : speeds) widths[speed.width] = speed.*member;
      rates[count] = interpolate(widths, run.architecture.hidden_size);
    }
    return interpolate(rates, threads);
  };
  Throughput throughput;
  throughput.matrix_flops_per_second = rate(&MeasuredSpeed::matrix_flops_per_second);
  throughput.attention_flops_per_second = rate(&MeasuredSpeed::attention_flops_per_second);
  throughput.bytes_per_second = rate(&MeasuredSpeed::bytes_per_second);
  throughput.source = "the calibration of " + calibration.measured_on;
  return throughput;
}

std::optional<int64_t> overhead_of(const Calibration& calibration, const KernelSettings& settings) {
  for (const MeasuredOverhead& overhead : calibration.overheads) {
    if (overhead.settings == settings) return overhead.bytes;
  }
  return std::nullopt;
}

}  // namespace fathom::plan
