// One map per GPU in the list: product, compute_capability, multiprocessors, memory_bytes (or memory_gib), and what
// time and cost are reckoned from: bandwidth, arithmetic per precision, link, network, price.
#include "config/devices.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "config/problem.h"
#include "config/text.h"
#include "config/value.h"
#include "config/yaml.h"

namespace fathom::config {
namespace {

constexpr double kMostGib = 1 << 20;
constexpr double kMostBytes = kMostGib * kGiB;

// "9.0": the parts that cudaDeviceProp::major and ::minor are.
bool is_compute_capability(const Value& value) {
  if (value.kind != Value::Kind::kScalar) return false;
  const std::string& text = value.text;
  const size_t dot = text.find('.');
  const auto digits = [&](size_t from, size_t to) {
    return from < to &&
           std::all_of(text.begin() + static_cast<ptrdiff_t>(from), text.begin() + static_cast<ptrdiff_t>(to),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  return dot != std::string::npos && dot <= 2 && text.size() == dot + 2 && digits(0, dot) &&
         digits(dot + 1, text.size());
}

// "9.0": 90.
int number_of(std::string compute_capability) {
  std::erase(compute_capability, '.');
  int number = 0;
  std::from_chars(compute_capability.data(), compute_capability.data() + compute_capability.size(), number);
  return number;
}

// Figures that a list may leave out.
struct Figure {
  const char* key;
  double GpuSpec::*member;
  double unit;  // of the listed number
};
constexpr double kGiga = 1e9, kTera = 1e12;
constexpr std::array kFigures{Figure{"memory_gb_per_second", &GpuSpec::memory_bytes_per_second, kGiga},
                              Figure{"fp32_tflops", &GpuSpec::fp32_flops, kTera},
                              Figure{"tf32_tflops", &GpuSpec::tf32_flops, kTera},
                              Figure{"bf16_tflops", &GpuSpec::bf16_flops, kTera},
                              Figure{"fp16_tflops", &GpuSpec::fp16_flops, kTera},
                              Figure{"fp8_tflops", &GpuSpec::fp8_flops, kTera},
                              Figure{"int8_tops", &GpuSpec::int8_ops, kTera},
                              Figure{"link_gb_per_second", &GpuSpec::link_bytes_per_second, kGiga},
                              Figure{"network_gb_per_second", &GpuSpec::network_bytes_per_second, kGiga},
                              Figure{"host_link_gb_per_second", &GpuSpec::host_link_bytes_per_second, kGiga},
                              Figure{"desktop_gib", &GpuSpec::desktop_bytes, kGiB},
                              Figure{"price_per_hour", &GpuSpec::price_per_hour, 1}};
constexpr double kMostFigure = 1e6;

const Figure* find_figure(const std::string& key) {
  const auto* found = std::find_if(kFigures.begin(), kFigures.end(), [&](const Figure& f) { return key == f.key; });
  return found == kFigures.end() ? nullptr : found;
}

constexpr std::array kSizes{"product",      "compute_capability", "multiprocessors",
                            "memory_bytes", "memory_gib",         "gpus_per_node"};

bool is_known(const std::string& key) {
  return find_figure(key) != nullptr || std::find(kSizes.begin(), kSizes.end(), key) != kSizes.end();
}

std::string known_keys() {
  std::string keys;
  for (const char* key : kSizes) keys += std::string(keys.empty() ? "" : ", ") + key;
  for (const Figure& figure : kFigures) keys += std::string(", ") + figure.key;
  return keys;
}

std::optional<Mismatch> store(GpuSpec& gpu, const std::string& key, const Value& value) {
  const auto keep = [](auto read, auto& target) -> std::optional<Mismatch> {
    if (Mismatch* mismatch = std::get_if<Mismatch>(&read)) return *mismatch;
    target = std::get<0>(std::move(read));
    return std::nullopt;
  };
  if (key == "product") return keep(read_text(value, "the name that CUDA reports"), gpu.product);
  if (key == "multiprocessors") return keep(read_integer(value, {.low = 1, .high = 4096}), gpu.multiprocessors);
  if (key == "gpus_per_node") {
    int64_t count = 0;
    auto mismatch = keep(read_integer(value, {.low = 1, .high = 4096}), count);
    gpu.gpus_per_node = static_cast<double>(count);
    return mismatch;
  }
  if (key == "compute_capability") {
    if (!is_compute_capability(value)) return Mismatch{"a number like \"9.0\"", describe(value), ""};
    gpu.compute_capability = value.text;
    return std::nullopt;
  }
  if (const Figure* figure = find_figure(key)) {
    auto mismatch = keep(read_number(value, {.low = 0, .open_low = true, .high = kMostFigure}), gpu.*figure->member);
    gpu.*figure->member *= figure->unit;
    return mismatch;
  }
  const bool in_gib = key == "memory_gib";
  double number = 0;
  auto mismatch = keep(read_number(value, {.low = 1, .high = in_gib ? kMostGib : kMostBytes}), number);
  if (!mismatch)
    gpu.memory_bytes = static_cast<int64_t>(std::llround(in_gib ? number * static_cast<double>(kGiB) : number));
  return mismatch;
}

void read_gpu(const Entry& section, std::map<std::string, GpuSpec>& gpus, Problems& problems) {
  if (section.value.kind != Value::Kind::kMap) {
    problems.add(section.at, section.key, {"a map of the GPU's figures", describe(section.value), ""});
    return;
  }
  GpuSpec gpu;
  gpu.name = section.key;
  gpu.product = section.key;
  for (const Entry& entry : section.value.entries) {
    if (!is_known(entry.key)) {
      problems.add(entry.at, entry.key, "unknown key", "known are " + known_keys());
    } else if (const auto mismatch = store(gpu, entry.key, entry.value)) {
      problems.add(entry.value.kind == Value::Kind::kNull ? entry.at : entry.value.at, entry.key, *mismatch);
    }
  }
  const auto require = [&](bool present, const char* key) {
    if (!present) problems.add(section.at, section.key, std::string("has no ") + key, std::string("add ") + key);
  };
  require(!gpu.compute_capability.empty() || problems.concern("compute_capability"), "compute_capability");
  require(gpu.multiprocessors > 0 || problems.concern("multiprocessors"), "multiprocessors");
  require(gpu.memory_bytes > 0 || problems.concern("memory_gib") || problems.concern("memory_bytes"), "memory_bytes");
  gpus[gpu.name] = gpu;
}

// "NVIDIA GeForce RTX 4090", "rtx4090", "4090": "4090".
std::string without_makers(const std::string& name) {
  std::istringstream words(plain_name(name));
  std::string rest;
  for (std::string word; words >> word;) {
    for (const std::string_view maker : {"nvidia", "geforce", "tesla", "quadro", "rtx"}) {
      if (rest.empty() && word.starts_with(maker)) word.erase(0, maker.size());
    }
    if (!word.empty()) rest += (rest.empty() ? "" : " ") + word;
  }
  return rest;
}

// wanted: without words of the maker. A name without the size that sets a GPU apart in the list means none of them; one
// with the size that it has is its own.
bool is_called(const GpuSpec& gpu, const std::string& wanted) {
  const std::string key = without_makers(gpu.name), product = without_makers(gpu.product);
  const bool tells_size = product.ends_with(" gb") || !key.ends_with(" gb");
  if (wanted.empty() || wanted == key || (tells_size && wanted == product)) return !wanted.empty();
  if (!wanted.ends_with(" gb") || !wanted.starts_with(key + " ")) return false;
  double gigabytes = 0;
  std::istringstream(wanted.substr(key.size())) >> gigabytes;
  return plain_name(format_number(gigabytes) + "GB") == wanted.substr(key.size() + 1) &&
         std::abs(static_cast<double>(gpu.memory_bytes) / kGiB / gigabytes - 1) < 0.1;
}

// "MI300X", "RX 7900 XTX", "M3 Max", "Gaudi 3": of other makers.
bool is_of_others(const std::string& name) {
  std::istringstream words(plain_name(name));
  std::string first, number;
  words >> first >> number;
  const auto begins = [&](std::string_view maker) { return first.starts_with(maker); };
  constexpr std::array kMakers{"amd", "radeon", "instinct", "intel", "apple", "gaudi", "ascend"};
  constexpr std::array kOther{"rx", "mi", "arc", "tpu", "tpuv"};
  return std::any_of(kMakers.begin(), kMakers.end(), begins) ||
         std::find(kOther.begin(), kOther.end(), first) != kOther.end() || (first == "m" && number.size() == 1);
}

}  // namespace

bool has_bf16(const std::string& compute_capability) { return number_of(compute_capability) >= 80; }

bool has_fp8(const std::string& compute_capability) { return number_of(compute_capability) >= 89; }

bool is_supported(const std::string& compute_capability) { return number_of(compute_capability) >= 75; }

std::map<std::string, GpuSpec> load_gpus(const std::filesystem::path& yaml) {
  std::string text;
  try {
    text = read_file(yaml, kLargestYaml);
  } catch (const Error& error) {
    throw UsageError(error.what(), "it belongs to fathom and lies in its folder configs");
  }
  Problems problems(yaml.string());
  std::map<std::string, GpuSpec> gpus;
  for (const Entry& section : read_yaml(text, problems)) read_gpu(section, gpus, problems);
  problems.throw_if_any();
  return gpus;
}

const GpuSpec& find_gpu(const std::map<std::string, GpuSpec>& gpus, const std::string& name) {
  if (const auto exact = gpus.find(name); exact != gpus.end()) return exact->second;
  std::vector<std::string> known;
  const GpuSpec* found = nullptr;
  for (const auto& [key, gpu] : gpus) {
    if (plain_name(key) == plain_name(name)) return gpu;
    known.push_back(key);
    if (!is_called(gpu, without_makers(name))) continue;
    if (found != nullptr)
      throw UsageError("'" + printable(name) + "' may be " + found->name + " or " + key, "name one");
    found = &gpu;
  }
  if (found != nullptr) return *found;
  const std::string unknown = "unknown GPU '" + printable(name) + "'",
                    list = "`fathom list gpus` names those of configs/gpus.yaml";
  if (is_of_others(name)) throw UsageError(unknown + ": fathom knows NVIDIA's alone, as its LibTorch does", list);
  const std::string meant = did_you_mean(name, known);
  throw UsageError(unknown, (meant.empty() ? "" : meant + " ") + list);
}

}  // namespace fathom::config
