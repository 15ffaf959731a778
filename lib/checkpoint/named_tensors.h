// Tensors with their names, to and from safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "model/units.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

struct NamedTensors : std::vector<std::pair<std::string, at::Tensor>> {
  using std::vector<std::pair<std::string, at::Tensor>>::vector;
  NamedTensors() = default;
  NamedTensors(std::vector<std::pair<std::string, at::Tensor>> tensors)  // NOLINT(google-explicit-constructor)
      : vector(std::move(tensors)) {}
  // Who has them in shares; null: they lie where they are. Each process then reads and writes its own.
  model::UnitKeeper* units = nullptr;
};

// Sources for weights::write_safetensors, named prefix + name: a contiguous tensor of the CPU is read where it lies,
// any other is copied to the host when its turn comes; those in shares are for weights::write_together. The tensors
// live as long as the sources.
std::vector<weights::TensorSource> tensor_sources(const NamedTensors& tensors, const std::string& prefix = "");

// Copies every tensor of the file, named prefix + name, into the destination of that name, in place. Throws Error
// before the first copy if a name, shape or dtype differs, or one has no destination (weights/other_parts.h apart).
void copy_tensors(const weights::SafetensorsFile& file, const NamedTensors& destinations,
                  const std::string& prefix = "");

}  // namespace fathom::checkpoint
