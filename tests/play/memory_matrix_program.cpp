// Plays every run of the memory matrix on the CPU, for scripts/campaigns/memory_matrix: on stdout a JSON object that
// names LibTorch and its instruction set, then one per run.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <exception>
#include <iostream>

#include "base/json.h"
#include "phantom/device.h"
#include "plan/estimate/analytic.h"
#include "play/make_plan.h"
#include "tests/play/matrix_run.h"

namespace fathom::play::testing {
namespace {

Json settings_of(const std::vector<size_t>& levels) {
  Json settings = Json::object();
  for (size_t axis = 0; axis < levels.size(); ++axis) {
    settings[plan::testing::matrix_axes()[axis].name] = plan::testing::matrix_axes()[axis].levels[levels[axis]];
  }
  return settings;
}

Json architecture_of(const arch::Architecture& architecture) {
  const arch::LayerSpec& layer = architecture.layers.front();  // those that attend are alike but for their windows
  return {{"hidden_size", architecture.hidden_size},
          {"intermediate_size", layer.feed_forward.width},
          {"vocab_size", architecture.vocab_size},
          {"num_attention_heads", architecture.attention().heads},
          {"num_key_value_heads", architecture.attention().key_value_heads},
          {"head_dim", architecture.attention().head_dim},
          {"parameters", arch::parameter_count(architecture)}};
}

Json components_of(const memory::ComponentBytes& bytes) {
  Json components = Json::object();
  for (const memory::Component component : memory::kComponents) {
    components[std::string(component_name(component))] = bytes[component];
  }
  return components;
}

memory::ComponentBytes analytic_of(const plan::testing::MatrixRun& run) {
  plan::Target target = cpu_target();
  target.threads = run.config.num_threads;
  target.attention_kernel = attention_kernel(arch::resolve(run.config, run.architecture), phantom::device());
  return plan::estimate_analytic(arch::resolve(run.config, run.architecture), target, workload_of(run)).at_peak;
}

Json row_of(const plan::testing::MatrixRun& run, const std::vector<size_t>& levels) {
  const memory::Memory dry = predict(run), real = measure(run);
  return {{"name", run.name},
          {"settings", settings_of(levels)},
          {"shape", architecture_of(run.architecture)},
          {"dry_run", {{"peak", dry.peak}, {"components", components_of(dry.at_peak)}}},
          {"measured", {{"peak", real.peak}, {"components", components_of(real.at_peak)}}},
          {"analytic", components_of(analytic_of(run))},
          {"differences", differences(dry, real)},
          {"figures", figures(dry).size()},
          {"kernel_scratch", {{"dry_run", dry.kernel_scratch}, {"measured", real.kernel_scratch}}}};
}

}  // namespace
}  // namespace fathom::play::testing

int main() try {
  fathom::ledger::install_cpu();
  const auto runs = fathom::plan::testing::memory_matrix();
  const auto levels = fathom::plan::testing::matrix_levels();
  const fathom::Json software = {{"libtorch", TORCH_VERSION}, {"instruction_set", at::get_cpu_capability()}};
  std::cout << software.dump() << std::endl;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::cout << fathom::play::testing::row_of(runs[i], levels[i]).dump() << std::endl;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
