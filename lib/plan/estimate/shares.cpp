// Sums of bytes over the parameters of each unit.
#include "plan/estimate/shares.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/rounding.h"
#include "config/shards.h"
#include "footprint/moment_storage.h"
#include "footprint/offload.h"

namespace fathom::plan {
namespace {

using memory::Component;

constexpr const char* kUnits =
    "a unit's parameters and gradients are divided evenly among those that share them; lib/dist";
constexpr const char* kBlocks = "processes divide parameters between blocks of moments in 8 bits; lib/dist";

footprint::Tensors bytes_of(const char* what, int64_t bytes, Component component) {
  return {{what, kUnits, {{bytes, "bytes"}}, component}};
}

}  // namespace

// Every parameter with blocks begins with one, and so does every piece of these.
std::vector<UnitBytes> unit_bytes(const arch::Run& run) {
  const int64_t processes = config::shard_size(run.config);
  struct Blocks {
    int64_t bytes = 0, filled = 0, block = 0;
  };
  std::vector<UnitBytes> units(static_cast<size_t>(run.architecture.num_hidden_layers()) + 2);
  std::vector<Blocks> in_blocks(2 * units.size());  // of each unit those without casts, and those with them
  const arch::Casts& casts = run.gathered_casts;
  for (const arch::ParameterRow& row : run.parameters.rows) {
    const int64_t bytes = row.codes ? row.code_bytes() : row.value_bytes();
    const auto number = static_cast<size_t>(arch::unit_of(row.spec, run.architecture));
    const bool as_cast = casts.have(row);
    const int64_t gathered = as_cast ? bytes / size_of(row.dtype) * size_of(*casts.type) : bytes;
    units[number].gathered = checked_add(units[number].gathered, gathered, "parameters of a unit");
    if (!row.trained) continue;
    units[number].trained += bytes;
    if (!config::is_shared(run.config)) continue;
    const int64_t block = footprint::block_of_moments(run.config, row.spec.elements()) * size_of(row.dtype);
    if (block == size_of(row.dtype)) continue;
    Blocks& blocks = in_blocks[2 * number + (as_cast ? 1 : 0)];
    blocks = {blocks.bytes + bytes, blocks.filled + round_up(bytes, block), std::max(blocks.block, block)};
  }
  for (size_t i = 0; i < in_blocks.size(); ++i) {
    const auto& [bytes, filled, block] = in_blocks[i];
    if (block == 0) continue;
    UnitBytes& unit = units[i / 2];
    const int64_t filling = round_up(divide_up(filled, processes), block) * processes - bytes;
    const int64_t gathered = i % 2 == 1 ? filling / size_of(DType::kF32) * size_of(*casts.type) : filling;
    unit.filling += filling;
    unit.gathered = checked_add(unit.gathered, gathered, "parameters of a unit");
    unit.trained += filling;
  }
  return units;
}

std::vector<UnitShare> unit_shares(const arch::Run& run) {
  if (!config::is_shared(run.config)) return {};
  const int64_t sharers = config::shard_size(run.config), replicas = config::replicas(run.config);
  std::vector<UnitShare> shares;
  for (const auto& [gathered, trained, filling] : unit_bytes(run)) {
    UnitShare& share = shares.emplace_back();
    share.gathered = bytes_of("parameters of a unit, gathered", gathered, Component::kFunctionality);
    share.reduced = bytes_of("gradients of a unit", trained, Component::kGradients);
    const int64_t own = divide_up(trained, sharers);
    const footprint::Tensors others =
        bytes_of("gradients of other processes", own * (sharers - 1), Component::kFunctionality);
    share.reduced.insert(share.reduced.end(), others.begin(), others.end());
    share.gradient = bytes_of("a share of gradients", own, Component::kGradients);
    share.summed =
        bytes_of("gradients of other copies", divide_up(own, replicas) * (replicas - 1), Component::kFunctionality);
  }
  return shares;
}

OffloadedLayerBytes offloaded_layers(const arch::Run& run) {
  OffloadedLayerBytes offloaded;
  if (!run.config.offload_weights) return offloaded;
  std::vector<int64_t> units(static_cast<size_t>(run.architecture.num_hidden_layers()) + 2);
  for (const arch::ParameterRow& row : run.parameters.rows) {
    const auto unit = static_cast<size_t>(arch::unit_of(row.spec, run.architecture));
    if (row.trained || unit == 0 || unit + 1 == units.size()) continue;
    const auto add = [&](int64_t bytes) { units[unit] += round_up(bytes, footprint::kStagingAlignment); };
    if (!row.codes) {
      (row.dtype == run.precision.stored ? offloaded.numbers : offloaded.wide) += row.spec.elements();
      add(row.value_bytes());
      continue;
    }
    const quant::Layout layout = quant::layout_of(*row.codes, row.spec.shape[0], row.spec.shape[1]);
    const int64_t outer = 4 * layout.outer_scales;
    offloaded.codes += layout.code_bytes;
    offloaded.scales += layout.scale_bytes;
    add(layout.code_bytes);
    add(layout.scale_bytes - outer);
    add(outer);
  }
  for (const int64_t bytes : units) {
    offloaded.bytes = checked_add(offloaded.bytes, bytes, "layers in the host's memory");
    offloaded.largest = std::max(offloaded.largest, bytes);
  }
  return offloaded;
}

footprint::Bytes filling_of_blocks(const arch::Run& run) {
  int64_t bytes = 0;
  if (config::is_shared(run.config)) {
    for (const UnitBytes& unit : unit_bytes(run)) bytes += unit.filling;
  }
  return {"what fills up blocks", kBlocks, {{bytes, "bytes"}}, Component::kWeights};
}

void divide_among_processes(const config::RunConfig& run, footprint::Tensors& standing) {
  if (!config::is_shared(run)) return;
  for (footprint::Bytes& tensor : standing) {
    tensor.product = {{divide_up(value_of(tensor.product), config::shard_size(run)), "bytes, a share"}};
  }
}

}  // namespace fathom::plan
