// Of a model that processes share (strategy: fsdp): what comes and goes on one of them, unit by unit.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/run.h"
#include "footprint/footprint.h"

namespace fathom::plan {

// Of a unit as model/units.h has it.
struct UnitShare {
  footprint::Tensors gathered;  // its parameters, whole
  footprint::Tensors reduced;   // its gradients, while others' are added up with them
  footprint::Tensors gradient;  // what stays of these
  footprint::Tensors summed;    // what comes of other copies', while a unit more computes
};

// Bytes of a unit's parameters as they are gathered, frozen codes among them, and of its trained ones, which its
// gradients take too.
struct UnitBytes {
  int64_t gathered = 0, trained = 0;
  int64_t filling = 0;  // of the trained ones: where a share's pieces end with blocks of moments
};
// Of every unit, in order.
std::vector<UnitBytes> unit_bytes(const arch::Run& run);

// In order. Empty where a process has the whole model.
std::vector<UnitShare> unit_shares(const arch::Run& run);

// Frozen parameters of layers that lie in the host's memory (config offload_weights); zeros where none do.
struct OffloadedLayerBytes {
  int64_t numbers = 0, wide = 0, codes = 0, scales = 0;  // of plain parameters, and in FP32 beside a narrower type;
                                                         // bytes of quantized ones
  int64_t bytes = 0, largest = 0;  // as model/offloaded_layers.h has them: of all, of the largest layer
};
OffloadedLayerBytes offloaded_layers(const arch::Run& run);

// Of all weights: what is between them where processes divide them between blocks of moments.
footprint::Bytes filling_of_blocks(const arch::Run& run);

// What stands, weights and states, becomes one process's share of it.
void divide_among_processes(const config::RunConfig& run, footprint::Tensors& standing);

// Whether others read the parameters of unit 0 as well, which then stays while a pass goes on.
inline bool first_unit_stays(const arch::Architecture& architecture) {
  return architecture.tie_word_embeddings || architecture.encoder.has_value();
}

}  // namespace fathom::plan
