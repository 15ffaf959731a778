// The list as JSON and back, and the roofline of one row.
#include "plan/time/kernels.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::plan {
namespace {

double flops_per_second(DType type, const config::GpuSpec& gpu, bool tf32) {
  switch (type) {
    case DType::kBF16:
      return gpu.bf16_flops;
    case DType::kF16:
      return gpu.fp16_flops > 0 ? gpu.fp16_flops : gpu.bf16_flops;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return gpu.fp8_flops;
    case DType::kI8:
      return gpu.int8_ops;
    default:
      return tf32 ? gpu.tf32_flops : gpu.fp32_flops;
  }
}

memory::Phase phase_of(const std::string& name) {
  for (const memory::Phase phase : memory::kPhases) {
    if (memory::phase_name(phase) == name) return phase;
  }
  throw Error("the list of kernels names the phase \"" + name + "\", which there is not");
}

}  // namespace

Json to_json(const KernelList& list) {
  Json rows = Json::array();
  for (const KernelRow& row : list.rows) {
    rows.push_back({{"phase", memory::phase_name(row.phase)},
                    {"part", row.part},
                    {"operator", row.op},
                    {"type", dtype_name(row.type)},
                    {"calls", row.calls},
                    {"launches", row.launches},
                    {"matrix_flops", row.matrix_flops},
                    {"attention_flops", row.attention_flops},
                    {"bytes", row.bytes}});
  }
  return {{"rows", rows},
          {"launches", list.launches},
          {"host_launches", list.host_launches},
          {"host_seconds", list.host_seconds}};
}

KernelList kernels_from_json(const Json& value) {
  KernelList list;
  list.launches = value.at("launches").get<int64_t>();
  list.host_launches = value.at("host_launches").get<int64_t>();
  list.host_seconds = value.at("host_seconds").get<double>();
  for (const Json& each : value.at("rows")) {
    KernelRow& row = list.rows.emplace_back();
    row.phase = phase_of(each.at("phase").get<std::string>());
    row.part = each.at("part").get<std::string>();
    row.op = each.at("operator").get<std::string>();
    row.type = dtype_from_name(each.at("type").get<std::string>());
    row.calls = each.at("calls").get<int64_t>();
    row.launches = each.at("launches").get<int64_t>();
    row.matrix_flops = each.at("matrix_flops").get<int64_t>();
    row.attention_flops = each.at("attention_flops").get<int64_t>();
    row.bytes = each.at("bytes").get<int64_t>();
  }
  return list;
}

std::optional<double> least_seconds(const KernelRow& row, const config::GpuSpec& gpu, bool tf32) {
  const double speed = row.flops() > 0 ? flops_per_second(row.type, gpu, tf32) : 1;
  if (gpu.memory_bytes_per_second <= 0 || speed <= 0) return std::nullopt;
  return std::max(static_cast<double>(row.bytes) / gpu.memory_bytes_per_second,
                  static_cast<double>(row.flops()) / speed);
}

}  // namespace fathom::plan
