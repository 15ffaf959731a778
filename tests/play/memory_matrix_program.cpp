// Plays every run of the memory matrix on the CPU, for scripts/campaigns/memory_matrix: on stdout a JSON object that
// names LibTorch and its instruction set, then one per run. With --seed N the runs of another design; with
// --preferences of preferences those that can be; with --estimates, in place of JSON, how far the analytic estimate of
// each is off the dry run, which alone is played; with --peaks PLACE what both have at the peak of one run.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/json_value.h"
#include "memory/block_groups.h"
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

plan::Analytic analytic_of(const plan::testing::MatrixRun& run) {
  plan::Target target = cpu_target();
  target.threads = run.config.num_threads;
  target.attention_kernel = attention_kernel(arch::resolve(run.config, run.architecture), phantom::device());
  return plan::estimate_analytic(arch::resolve(run.config, run.architecture), target, workload_of(run));
}

Json row_of(const plan::testing::MatrixRun& run, const std::vector<size_t>& levels) {
  const memory::Memory dry = predict(run), real = measure(run);
  return {{"name", run.name},
          {"settings", settings_of(levels)},
          {"shape", architecture_of(run.architecture)},
          {"dry_run", {{"peak", dry.peak}, {"components", components_of(dry.at_peak)}}},
          {"measured", {{"peak", real.peak}, {"components", components_of(real.at_peak)}}},
          {"analytic", components_of(analytic_of(run).at_peak)},
          {"differences", differences(dry, real)},
          {"figures", figures(dry).size()},
          {"kernel_scratch", {{"dry_run", dry.kernel_scratch}, {"measured", real.kernel_scratch}}}};
}

// Without running it: how far the estimate is off, and the component by which most.
void print_estimate(const plan::testing::MatrixRun& run) {
  const memory::Memory dry = predict(run);
  const plan::Analytic analytic = analytic_of(run);
  const auto excess = [&](memory::Component each) { return analytic.at_peak[each] - dry.at_peak[each]; };
  const memory::Component most = *std::max_element(
      memory::kComponents.begin(), memory::kComponents.end(),
      [&](memory::Component a, memory::Component b) { return std::abs(excess(a)) < std::abs(excess(b)); });
  const double percent = 100.0 * static_cast<double>(analytic.peak - dry.peak) / static_cast<double>(dry.peak);
  std::cout << std::fixed << std::setprecision(2) << percent << " %  dry run " << dry.peak << "  estimate "
            << analytic.peak << "  " << component_name(most) << " " << excess(most) << "  " << run.name << ": "
            << analytic.instant << std::endl;
}

// What is there at the estimate's largest instant, and at the dry run's.
void print_peaks(const plan::testing::MatrixRun& run) {
  const auto line = [](memory::Component component, int64_t bytes, const std::string& what) {
    std::cout << std::setw(12) << bytes << "  " << component_name(component) << "  " << what << "\n";
  };
  const plan::Analytic analytic = analytic_of(run);
  std::cout << "estimate: " << analytic.instant << "\n";
  for (const plan::Analytic::Term& term : analytic.terms) {
    const std::string layers = term.layers > 0 ? ", of " + std::to_string(term.layers) + " layers" : "";
    line(term.component, term.bytes, term.what + ": " + term.formula + layers);
  }
  at::set_num_threads(static_cast<int>(run.config.num_threads));
  std::cout << "dry run:\n";
  const arch::Run resolved = arch::resolve(run.config, run.architecture);
  const memory::Timeline timeline = dry_run_cpu(resolved, nullptr, workload_of(run)).timeline;
  for (const memory::BlockGroup& group : memory::groups_at_peak(timeline).largest_first()) {
    line(group.component, group.bytes(), group.what + ", " + std::to_string(group.count) + " of them");
  }
}

struct Arguments {
  uint64_t seed = plan::testing::kMatrixSeed;
  bool estimates = false, preferences = false;
  std::optional<size_t> peaks;  // the place of a run
};

Arguments arguments_of(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] { return std::stoull(words.at(++i)); };
    if (words[i] == "--seed") {
      arguments.seed = value();
    } else if (words[i] == "--estimates") {
      arguments.estimates = true;
    } else if (words[i] == "--preferences") {
      arguments.preferences = true;
    } else if (words[i] == "--peaks") {
      arguments.peaks = value();
    } else {
      throw std::invalid_argument("usage: memory_matrix [--seed N] [--preferences] [--estimates | --peaks PLACE]");
    }
  }
  return arguments;
}

void play_matrix(const Arguments& arguments) {
  const auto levels = plan::testing::matrix_levels(arguments.seed);
  const auto plain = plan::testing::memory_matrix(arguments.seed);
  std::vector<std::optional<plan::testing::MatrixRun>> runs(plain.begin(), plain.end());
  if (arguments.preferences) std::transform(plain.begin(), plain.end(), runs.begin(), plan::testing::of_preferences);
  if (arguments.peaks) return print_peaks(runs.at(*arguments.peaks).value());
  const Json software = {{"libtorch", TORCH_VERSION}, {"instruction_set", at::get_cpu_capability()}};
  if (!arguments.estimates) std::cout << software.dump() << std::endl;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]) continue;
    arguments.estimates ? print_estimate(*runs[i]) : void(std::cout << row_of(*runs[i], levels[i]).dump() << std::endl);
  }
}

}  // namespace
}  // namespace fathom::play::testing

int main(int count, char** words) try {
  fathom::ledger::install_cpu();
  fathom::play::testing::play_matrix(fathom::play::testing::arguments_of({words + 1, words + count}));
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
