// What a step gives the device to do, operator by operator, and the least time that it can take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "config/devices.h"
#include "memory/component.h"

namespace fathom::plan {

// The calls of one operator in one part of the model and one phase, added up.
struct KernelRow {
  memory::Phase phase = memory::Phase::kForward;
  std::string part;          // "model.layers.*.mlp.up_proj", of all layers; empty: outside of the model
  std::string op;            // "aten::mm"
  DType type = DType::kF32;  // of its first tensor; of a product's factors
  int64_t calls = 0;
  int64_t launches = 0;                           // kernels, products of libraries, copies and fills; 0 on a CPU
  int64_t matrix_flops = 0, attention_flops = 0;  // as Arithmetic has them
  int64_t bytes = 0;                              // that are read and written, those of products too
  int64_t flops() const { return matrix_flops + attention_flops; }
  bool operator==(const KernelRow&) const = default;
};

struct KernelList {
  std::vector<KernelRow> rows;  // in the order of phases and parts
  int64_t launches = 0;         // of the whole step, also outside of any operator
  int64_t host_launches = 0;    // by the host: all, but a replay is one where they were recorded (config cuda_graphs)
  double host_seconds = 0;  // of the step where it was played: on a phantom GPU what the host does, without a driver
};

Json to_json(const KernelList& list);
// Throws Error or nlohmann::json::exception for a value of another form.
KernelList kernels_from_json(const Json& value);

// The larger of what the GPU's memory needs for the bytes, and its matrix units, in the row's type, for the products,
// both at the speed that they are sold with. nullopt where that is not listed.
std::optional<double> least_seconds(const KernelRow& row, const config::GpuSpec& gpu, bool tf32);

}  // namespace fathom::plan
