// `fathom doctor`: what this machine offers to a run, and what is missing.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/commands/calibrate.h"
#include "app/exit_status.h"
#include "app/installation.h"
#include "app/loader.h"
#include "app/machine.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/narrow_instructions.h"
#include "base/numbers.h"
#include "base/output.h"
#include "report/table.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

class Doctor final : public Command {
 public:
  Doctor() : Command("doctor", "What this machine offers, and what is missing") {}
  std::vector<Option> options() override {
    return {{"--calibrate", calibrate_, "", "Measure this machine's speed, and its GPU's overhead, for estimates"},
            pretended_.name_option("--phantom-gpu", "").used_only(calibrate_, "with --calibrate"),
            json_option(json_)};
  }
  void complete() override { phantom_gpu_ = pretended_.find(); }
  int run() const override { return calibrate_ ? Calibrate(json_, phantom_gpu_).run() : examine(); }

 private:
  int examine() const;

  bool calibrate_ = false, json_ = false;
  GpuWords pretended_;
  std::optional<config::GpuSpec> phantom_gpu_;
};

struct Findings {
  Json offers = Json::object();
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::string> missing;  // for runs on the CPU: the program cannot do without
  std::vector<std::string> absent;   // for other runs

  void add(const std::string& name, const std::string& text) { lines.emplace_back(name, text); }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void examine_cpu(Findings& findings) {
  const Cpu cpu = this_cpu();
  const bool native_bf16 = narrow_instructions().bf16;
  findings.add("CPU", cpu.model + ", " + format_counted(cpu.cores, "core"));
  findings.add("instructions",
               cpu.instructions.empty() ? "none of those that LibTorch has kernels for" : joined(cpu.instructions));
  findings.add("bfloat16",
               native_bf16 ? "by instructions of the CPU" : "through FP32: bf16 saves memory here, not time");
  findings.offers["cpu"] = {
      {"model", cpu.model}, {"cores", cpu.cores}, {"instructions", cpu.instructions}, {"native_bf16", native_bf16}};
}

void examine_memory(Findings& findings) {
  const std::optional<int64_t> limit = memory_limit_bytes();
  std::string text = format_bytes(total_memory_bytes()) + ", " + format_bytes(available_memory_bytes()) + " available";
  if (limit) text += ", limited to " + format_bytes(*limit) + " by the container";
  findings.add("memory", text);
  findings.offers["memory"] = {{"total_bytes", total_memory_bytes()},
                               {"available_bytes", available_memory_bytes()},
                               {"limit_bytes", limit ? Json(*limit) : Json(nullptr)}};
}

void examine_torch(Findings& findings) {
  try {
    const TorchFolder torch = find_torch();
    const bool cuda = fs::exists(torch.path / "lib" / "libtorch_cuda.so");
    findings.add("LibTorch", torch.version + " in " + torch.path.string() + (cuda ? "" : " (CPU only)"));
    findings.offers["libtorch"] = {{"version", torch.version}, {"path", torch.path.string()}, {"cuda", cuda}};
    if (!cuda)
      findings.absent.push_back(
          "libtorch_cuda.so, for GPUs and phantom GPUs: install a build of LibTorch with CUDA 13");
  } catch (const Error& error) {
    findings.offers["libtorch"] = nullptr;
    findings.missing.emplace_back(error.what());
  }
}

void examine_own_files(Findings& findings) {
  const auto need = [](const fs::path& path, const std::string& purpose, std::vector<std::string>& list) {
    if (!fs::exists(path)) list.push_back(path.string() + ", " + purpose + ": build fathom, or copy lib/ with it");
  };
  need(library_folder() / "libfathom_engine.so", "for every run", findings.missing);
  need(library_folder() / "libfathom_cuda.so", "for GPUs and phantom GPUs", findings.absent);
  need(library_folder() / "libfathom_nccl.so", "for several GPUs", findings.absent);
  need(library_folder() / "fathom-phantom", "for phantom GPUs", findings.absent);
  const bool kernels = fs::exists(cuda_kernels_file());
  findings.add("CUDA kernels",
               kernels ? "fathom's own, unless cuda_kernels: false" : "LibTorch's only: built without nvcc 13");
  findings.offers["cuda_kernels"] = kernels;
  try {
    gpus_file();
  } catch (const Error& error) {
    findings.absent.emplace_back(error.what());
  }
}

void examine_gpus(Findings& findings) {
  findings.offers["gpus"] = Json::array();
  const std::vector<Gpu> gpus = this_gpus();
  for (const Gpu& gpu : gpus) {
    findings.add("GPU",
                 gpu.name + ", compute capability " + gpu.compute_capability + ", " + format_bytes(gpu.memory_bytes));
    findings.offers["gpus"].push_back(
        {{"name", gpu.name}, {"compute_capability", gpu.compute_capability}, {"memory_bytes", gpu.memory_bytes}});
  }
  if (gpus.empty())
    findings.add("GPU",
                 "none that NVIDIA's driver lists: runs are on the CPU, plans for any GPU (estimate --gpu H100)");
}

std::string as_text(const Findings& findings) {
  constexpr size_t kWidth = 14;
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    text += name + std::string(kWidth - std::min(name.size(), kWidth - 1), ' ') + value + "\n";
  };
  for (const auto& [name, value] : findings.lines) add(name, value);
  for (const std::string& what : findings.missing) add("missing", what);
  for (const std::string& what : findings.absent) add("not there", what);
  if (findings.missing.empty()) add("ready", findings.absent.empty() ? "for everything" : "for runs on the CPU");
  return report::folded(text);
}

int Doctor::examine() const {
  Findings findings;
  examine_cpu(findings);
  examine_memory(findings);
  examine_torch(findings);
  examine_own_files(findings);
  examine_gpus(findings);
  findings.offers["missing"] = findings.missing;
  findings.offers["not_there"] = findings.absent;
  print(json_ ? format_json(findings.offers) : as_text(findings));
  return findings.missing.empty() ? kSuccess : kFailure;
}

}  // namespace

std::unique_ptr<Command> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace fathom::app
