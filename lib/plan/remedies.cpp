// Each remedy's saving is the difference of two analytic estimates.
#include "plan/remedies.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "arch/precision.h"
#include "base/bytes.h"
#include "config/devices.h"
#include "config/precision.h"
#include "plan/analytic.h"
#include "plan/techniques.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

// Of LibTorch: for the GPUs that have BF16, of compute capability 8.0 on.
bool has_flash_attention(const Target& target) { return config::has_bf16(target.compute_capability); }

bool computes_in_fp32(const RunConfig& run, const arch::Architecture& architecture) {
  return arch::precision_of(architecture, run).computed == DType::kF32;
}

int64_t longest(const Workload& workload) {
  int64_t length = 0;
  for (const schedule::StepShape& step : workload.steps) {
    for (const schedule::BatchShape& batch : step) length = std::max(length, schedule::longest_sequence(batch));
  }
  return length;
}

// As many of the documents as so many bins of the length hold, each cut to it.
schedule::BatchShape cut_documents(const schedule::BatchShape& batch, int64_t bins, int64_t length) {
  schedule::BatchShape smaller = {1, 0, batch.targets};
  const int64_t room = checked_multiply(bins, length, "batch size × length");
  for (const int64_t document : batch.document_lengths) {
    const int64_t kept = std::min(document, length);
    if (smaller.length + kept > room) break;
    smaller.document_lengths.push_back(kept);
    smaller.length += kept;
  }
  smaller.targets = std::min(batch.targets, smaller.length - static_cast<int64_t>(smaller.document_lengths.size()));
  return smaller;
}

// The shapes of `workload` cut to the other run's batch and length; accumulated where it accumulates.
Workload workload_with(Workload workload, const RunConfig& to) {
  const auto cut = [&](schedule::BatchShape& batch, int64_t rows) {
    const schedule::BatchShape smaller =
        schedule::whole_batch(std::min(batch.rows, rows), std::min(batch.length, to.max_length));
    if (batch.source_length > 0) {
      const int64_t length = std::min(batch.length, config::target_length(to));
      batch = {smaller.rows,
               length,
               std::min(batch.targets, smaller.rows * length),
               {},
               std::min(batch.source_length, to.max_length)};
    } else if (!batch.document_lengths.empty()) {
      batch = cut_documents(batch, rows, to.max_length);
    } else if (smaller.rows < batch.rows || smaller.length < batch.length) {
      batch = {smaller.rows, smaller.length, std::min(batch.targets, smaller.targets)};
    }
    workload.capacity_tokens = std::max(workload.capacity_tokens, batch.rows * batch.length);
    workload.capacity_source_tokens = std::max(workload.capacity_source_tokens, batch.rows * batch.source_length);
  };
  workload.capacity_tokens = workload.capacity_source_tokens = 0;
  for (schedule::StepShape& step : workload.steps) {
    for (schedule::BatchShape& batch : step) cut(batch, to.per_device_train_batch_size);
    if (step.size() == 1 && to.gradient_accumulation_steps > 1) step.push_back(step.front());
  }
  for (schedule::BatchShape& batch : workload.evaluations) cut(batch, to.per_device_eval_batch_size);
  return workload;
}

// The run with its updates kept: what is proposed for one that loses them mends that, too. Other optimizers than AdamW
// know no such rounding.
RunConfig with_kept_updates(RunConfig run) {
  if (config::rounds_weights_to_nearest(run) && config::row_of(run.optim).is_adamw) {
    run.master_weights = config::MasterWeights::kStochastic;
  }
  return run;
}

class Remedies {
 public:
  Remedies(const arch::Architecture& architecture, const RunConfig& run, const Target& target, const Workload& workload)
      : architecture_(architecture),
        run_(run),
        kept_(with_kept_updates(run)),
        target_(target),
        workload_(workload),
        peak_(estimate_analytic(architecture, run, target_of(target, run, architecture), workload).peak),
        operations_(operations(run)) {}

  std::vector<Remedy> take() {
    for (const Technique& technique :
         smaller_batches(techniques(run_, architecture_, narrow_type(run_, target_), target_.gpus_per_node))) {
      if (technique.group == "strategy") continue;
      if (const auto changed = technique.apply(kept_)) add(technique.name, technique.note, *changed, true);
    }
    update_early();
    offload();
    share_model();
    halve_length();
    if (!workload_.evaluations.empty() && run_.per_device_eval_batch_size > 1) {
      RunConfig changed = kept_;
      changed.per_device_eval_batch_size = 1;
      add("single rows in evaluations", "the same losses", changed, true);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Remedy& a, const Remedy& b) { return a.saved_bytes > b.saved_bytes; });
    return std::move(found_);
  }

 private:
  double operations(const RunConfig& run) const {
    const schedule::BatchShape batch =
        schedule::batch_of_longest(run.per_device_train_batch_size, workload_.steps, run.packing);
    const Arithmetic arithmetic =
        estimate_arithmetic(architecture_, run, schedule::StepShape(run.gradient_accumulation_steps, batch)).whole();
    return static_cast<double>(arithmetic.matrix_flops) + static_cast<double>(arithmetic.attention_flops);
  }

  // Of the rows of batches, the next smaller one and the smallest.
  std::vector<Technique> smaller_batches(std::vector<Technique> rows) const {
    std::vector<Technique> others, smaller;
    for (Technique& row : rows) {
      if (row.group != "batch") {
        others.push_back(std::move(row));
      } else if (row.apply(run_)->per_device_train_batch_size < run_.per_device_train_batch_size) {
        smaller.push_back(std::move(row));
      }
    }
    if (!smaller.empty()) others.push_back(smaller.back());
    if (smaller.size() > 1) others.push_back(smaller.front());
    return others;
  }

  // Where gradients neither add up nor wait for anything but the norm that clips them.
  void update_early() {
    const bool in_fp16 = arch::precision_of(architecture_, run_).computed == DType::kF16;
    if (run_.num_processes > 1 || run_.gradient_accumulation_steps > 1 || run_.cuda_graphs || in_fp16) return;
    RunConfig changed = kept_;
    changed.optimizer_in_backward = true;
    changed.max_grad_norm = 0;
    add("updates in the backward pass", run_.max_grad_norm > 0 ? "gradients are not clipped" : "the same result",
        changed, true);
  }

  void offload() {
    if (target_.device != config::Device::kCuda || run_.num_processes > 1) return;
    RunConfig changed = kept_;
    if (run_.method == config::Method::kLora) {
      changed.offload_weights = true;
      if (!run_.cuda_graphs)
        add("layers in the host's memory", "the same result; each pass brings them", changed, true);
    } else if (config::row_of(run_.optim).reads_betas) {
      changed.offload_optimizer = true;
      add("optimizer states in the host's memory", "the same result; each step moves them there and back", changed,
          true);
    }
  }

  // Among the processes that there are; or, where a GPU does not hold the run, among as many as do, by formula.
  void share_model() {
    constexpr int64_t kMost = 64;
    if (run_.num_processes > 1 && run_.strategy == config::Strategy::kDdp) {
      if (const auto shared = with_shares(kept_, run_.num_processes)) {
        add("shares of the model", "each process holds a share of the model, and waits for the others'", *shared, true);
      }
    }
    if (run_.num_processes > 1 || target_.device != config::Device::kCuda || target_.capacity_bytes >= peak_) return;
    for (int64_t processes = 2; processes <= kMost; processes *= 2) {
      const auto shared = with_shares(kept_, processes);
      if (!shared) return;
      if (processes < kMost && formula(*shared) > target_.capacity_bytes) continue;
      add("several GPUs", "each holds a share of the model, and a step takes as many more batches", *shared, true);
      return;
    }
  }

  int64_t formula(const RunConfig& run) const {
    return estimate_analytic(architecture_, run, target_of(target_, run, architecture_), workload_with(workload_, run))
        .peak;
  }

  void halve_length() {
    RunConfig changed = kept_;
    changed.max_length = longest(workload_) / 2;
    if (changed.max_length > 0) add("half the length", "longer samples are cut", changed, false);
  }

  void add(const std::string& name, const std::string& note, const RunConfig& changed, bool same_data) {
    if (config::rounds_weights_to_nearest(changed) && !config::rounds_weights_to_nearest(run_)) return;
    if (changed.master_weights != config::MasterWeights::kNone && !config::row_of(changed.optim).is_adamw) return;
    Remedy remedy;
    remedy.name = name;
    remedy.note = note;
    remedy.settings = settings_between(run_, changed);
    if (remedy.settings.empty()) return;
    remedy.peak = formula(changed);
    remedy.saved_bytes = peak_ - remedy.peak;
    if (remedy.saved_bytes <= 0) return;
    if (same_data) remedy.work = operations(changed) / operations_;
    found_.push_back(std::move(remedy));
  }

  const arch::Architecture& architecture_;
  const RunConfig& run_;
  const RunConfig kept_;
  const Target& target_;
  const Workload& workload_;
  const int64_t peak_;
  const double operations_;
  std::vector<Remedy> found_;
};

}  // namespace

Target target_of(const Target& target, const RunConfig& run, const arch::Architecture& architecture) {
  Target result = target;
  const bool cuda = target.device == config::Device::kCuda;
  if (run.attn_implementation == config::Attention::kMath) {
    result.attention_kernel = "math attention";
  } else if (run.attn_implementation == config::Attention::kCudnn) {
    result.attention_kernel = "cuDNN's attention";
  } else if (cuda && (computes_in_fp32(run, architecture) || !has_flash_attention(target))) {
    result.attention_kernel = "memory-efficient attention";
  } else {
    result.attention_kernel = "flash attention";
  }
  return result;
}

std::vector<Remedy> remedies(const arch::Architecture& architecture, const RunConfig& run, const Target& target,
                             const Workload& workload) {
  return Remedies(architecture, run, target, workload).take();
}

std::string describe_remedies(const std::vector<Remedy>& remedies, int64_t missing_bytes, size_t count) {
  std::string text;
  size_t width = 0;
  std::vector<std::string> settings;
  for (size_t i = 0; i < std::min(count, remedies.size()); ++i) {
    std::string& joined = settings.emplace_back();
    for (const std::string& setting : remedies[i].settings) joined += (joined.empty() ? "" : " ") + setting;
    width = std::max(width, joined.size());
  }
  for (size_t i = 0; i < settings.size(); ++i) {
    const Remedy& remedy = remedies[i];
    text += "  " + settings[i] + std::string(width - settings[i].size(), ' ') + "  saves " +
            format_bytes(remedy.saved_bytes) +
            (missing_bytes > 0 && remedy.saved_bytes >= missing_bytes ? ", enough by itself: " : ": ") + remedy.note;
    if (remedy.work && (*remedy.work > 1.005 || *remedy.work < 0.995)) {
      std::array<char, 32> times{};
      std::snprintf(times.data(), times.size(), "; %.2f times the arithmetic", *remedy.work);
      text += times.data();
    }
    text += "\n";
  }
  return text;
}

}  // namespace fathom::plan
