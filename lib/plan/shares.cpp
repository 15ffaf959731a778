// Sums of bytes over the parameters of each unit.
#include "plan/shares.h"

#include "base/bytes.h"
#include "base/rounding.h"

namespace fathom::plan {
namespace {

using memory::Component;

constexpr const char* kUnits = "a unit's parameters and gradients are divided evenly among processes; lib/dist";

footprint::Tensors bytes_of(const char* what, int64_t bytes, Component component) {
  return {{what, kUnits, {{bytes, "bytes"}}, component}};
}

}  // namespace

std::vector<UnitBytes> unit_bytes(const arch::Architecture& architecture, const arch::ParameterTable& parameters) {
  std::vector<UnitBytes> units(static_cast<size_t>(architecture.num_hidden_layers()) + 2);
  for (const arch::ParameterRow& row : parameters.rows) {
    const int64_t bytes = row.codes ? row.code_bytes() : row.value_bytes();
    UnitBytes& unit = units[static_cast<size_t>(arch::unit_of(row.spec, architecture))];
    unit.all = checked_add(unit.all, bytes, "parameters of a unit");
    if (row.trained) unit.trained += bytes;
  }
  return units;
}

std::vector<UnitShare> unit_shares(const arch::Architecture& architecture, const config::RunConfig& run,
                                   const arch::ParameterTable& parameters) {
  if (!is_shared(run)) return {};
  const int64_t processes = run.num_processes;
  std::vector<UnitShare> shares;
  for (const auto& [all, trained] : unit_bytes(architecture, parameters)) {
    UnitShare& share = shares.emplace_back();
    share.gathered = bytes_of("parameters of a unit, gathered", all, Component::kFunctionality);
    share.reduced = bytes_of("gradients of a unit", trained, Component::kGradients);
    const footprint::Tensors others = bytes_of(
        "gradients of other processes", divide_up(trained, processes) * (processes - 1), Component::kFunctionality);
    share.reduced.insert(share.reduced.end(), others.begin(), others.end());
    share.gradient = bytes_of("a share of gradients", divide_up(trained, processes), Component::kGradients);
  }
  return shares;
}

void divide_among_processes(const config::RunConfig& run, footprint::Tensors& standing) {
  if (!is_shared(run)) return;
  for (footprint::Bytes& tensor : standing) {
    tensor.product = {{divide_up(value_of(tensor.product), run.num_processes), "bytes, a share"}};
  }
}

}  // namespace fathom::plan
