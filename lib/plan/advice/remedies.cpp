// Each remedy's saving is the difference of two analytic estimates.
#include "plan/advice/remedies.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/bytes.h"
#include "config/checks.h"
#include "config/devices.h"
#include "config/precision.h"
#include "plan/advice/memory_keys.h"
#include "plan/advice/techniques.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "plan/time/communication.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

// Of LibTorch: for the GPUs that have BF16, of compute capability 8.0 on.
bool has_flash_attention(const Target& target) { return config::has_bf16(target.compute_capability); }

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
    const auto most = [&](int64_t length) { return data::padded_length(length, to.pad_to_multiple_of); };
    const schedule::BatchShape smaller =
        schedule::whole_batch(std::min(batch.rows, rows), std::min(batch.length, most(to.max_length)));
    if (batch.source_length > 0) {
      const int64_t length = std::min(batch.length, most(config::target_length(to)));
      batch = {smaller.rows,
               length,
               std::min(batch.targets, smaller.rows * length),
               {},
               std::min(batch.source_length, most(to.max_length))};
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
    for (schedule::BatchShape& batch : step) cut(batch, config::rows_of(to, to.per_device_train_batch_size));
    if (step.size() == 1 && to.gradient_accumulation_steps > 1) step.push_back(step.front());
  }
  for (schedule::BatchShape& batch : workload.evaluations)
    cut(batch, config::rows_of(to, to.per_device_eval_batch_size));
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
  Remedies(const arch::Run& run, const Target& target, const Workload& workload, const ThroughputOf& throughput)
      : run_(run),
        kept_(with_kept_updates(run.config)),
        target_(target),
        workload_(workload),
        throughput_(throughput),
        peak_(estimate_analytic(run, target_of(target, run), workload).peak),
        operations_(operations(run)) {}

  std::vector<Remedy> take() {
    const std::vector<Technique> rows = smaller_batches(techniques(run_, target_));
    for (const Technique& row : rows) {
      if (row.group == "strategy" || row.group == "evaluation") continue;
      if (const auto changed = row.apply(kept_)) add(row.name, row.note, *changed, true);
    }
    update_early_from_the_host(rows);
    share_model();
    halve_length();
    if (!workload_.evaluations.empty() && run_.config.per_device_eval_batch_size > 1) {
      RunConfig changed = kept_;
      changed.per_device_eval_batch_size = 1;
      add("single rows in evaluations", "the same losses", changed, true);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Remedy& a, const Remedy& b) { return a.saved_bytes > b.saved_bytes; });
    return std::move(found_);
  }

 private:
  schedule::StepShape step_of(const RunConfig& run) const {
    return schedule::StepShape(run.gradient_accumulation_steps,
                               schedule::batch_of_longest(config::rows_of(run, run.per_device_train_batch_size),
                                                          workload_.steps, run.packing));
  }

  double operations(const arch::Run& run) const {
    const Arithmetic arithmetic = estimate_arithmetic(run, step_of(run.config)).whole();
    return static_cast<double>(arithmetic.matrix_flops) + static_cast<double>(arithmetic.attention_flops);
  }

  // Of the rows of batches, the next smaller one and the smallest.
  std::vector<Technique> smaller_batches(std::vector<Technique> rows) const {
    std::vector<Technique> others, smaller;
    for (Technique& row : rows) {
      if (row.group != "batch") {
        others.push_back(std::move(row));
      } else if (const auto with = row.apply(run_.config);
                 with && with->per_device_train_batch_size < run_.config.per_device_train_batch_size) {
        smaller.push_back(std::move(row));
      }
    }
    if (!smaller.empty()) others.push_back(smaller.back());
    if (smaller.size() > 1) others.push_back(smaller.front());
    return others;
  }

  // Each alone saves little where the other's part is the peak.
  void update_early_from_the_host(const std::vector<Technique>& rows) {
    if (run_.config.method == config::Method::kLora) return;
    for (const Technique& early : rows) {
      if (early.group != "updates" || early.name.empty()) continue;
      for (const Technique& offloaded : rows) {
        if (offloaded.group != "host" || offloaded.name.empty()) continue;
        const auto first = early.apply(kept_);
        const auto both = first ? offloaded.apply(*first) : std::nullopt;
        if (both)
          add(early.name + ", " + offloaded.name, early.note + "; each step moves states there and back", *both, true);
      }
    }
  }

  // Among the processes that there are; or, where a GPU does not hold the run, among as many as do, by formula.
  void share_model() {
    constexpr int64_t kMost = 64;
    const int64_t now = run_.config.num_processes;
    if (now > 1 && run_.config.strategy == config::Strategy::kDdp) {
      if (const auto shared = with_shares(kept_, now)) {
        add("shares of the model", "each process holds a share of the model, and waits for the others'", *shared, true);
      }
    }
    if (now > 1 || target_.device != config::Device::kCuda || target_.capacity_bytes >= peak_) return;
    for (int64_t processes = 2; processes <= kMost; processes *= 2) {
      const auto shared = with_shares(kept_, processes);
      if (!shared) return;
      if (processes < kMost && formula(resolved(*shared)) > target_.capacity_bytes) continue;
      add("several GPUs", "each holds a share of the model, and a step takes as many more batches", *shared, true);
      return;
    }
  }

  arch::Run resolved(const RunConfig& config) const { return arch::resolve(config, run_.architecture); }

  int64_t formula(const arch::Run& run) const {
    return estimate_analytic(run, target_of(target_, run), workload_with(workload_, run.config)).peak;
  }

  void halve_length() {
    RunConfig changed = kept_;
    changed.max_length = longest(workload_) / 2;
    if (changed.max_length > 0) add("half the length", "longer samples are cut", changed, false);
  }

  void add(const std::string& name, const std::string& note, const RunConfig& config, bool same_data) {
    if (!config::is_consistent(config)) return;
    if (config::rounds_weights_to_nearest(config) && !config::rounds_weights_to_nearest(run_.config)) return;
    if (config.master_weights != config::MasterWeights::kNone && !config::row_of(config.optim).is_adamw) return;
    Remedy remedy;
    remedy.name = name;
    remedy.settings = settings_between(run_.config, config);
    if (remedy.settings.empty()) return;
    const arch::Run changed = resolved(config);
    if (config.optimizer_in_backward && changed.precision.computed == DType::kF16) return;
    remedy.peak = formula(changed);
    remedy.saved_bytes = peak_ - remedy.peak;
    if (remedy.saved_bytes <= 0) return;
    remedy.note = note + cost_of_copies(changed) + remark(config);
    if (same_data) remedy.work = operations(changed) / operations_;
    found_.push_back(std::move(remedy));
  }

  // Of what lies in the host's memory and did not.
  std::string cost_of_copies(const arch::Run& changed) const {
    if (!offloads(changed.config) || offloads(run_.config)) return "";
    std::string text = "; " + format_bytes(host_traffic(changed)) + " each way in a step";
    const auto throughput = throughput_ ? throughput_(changed) : std::nullopt;
    if (!throughput || !throughput->host_link) return text;
    const schedule::StepShape step = step_of(changed.config);
    const ExpectedTime time = expected_step_time(changed, step, estimate_arithmetic(changed, step), *throughput);
    std::array<char, 64> seconds{};
    std::snprintf(seconds.data(), seconds.size(), ", %.2f s of %.2f not hidden", time.host_seconds, time.seconds());
    return text + seconds.data();
  }

  std::string remark(const RunConfig& changed) const {
    const bool untried = target_.device == config::Device::kCuda &&
                         untried_on_gpus(changed).size() > untried_on_gpus(run_.config).size();
    return untried ? "; no GPU has run it yet" : "";
  }

  const arch::Run& run_;
  const RunConfig kept_;
  const Target& target_;
  const Workload& workload_;
  const ThroughputOf& throughput_;
  const int64_t peak_;
  const double operations_;
  std::vector<Remedy> found_;
};

}  // namespace

Target target_of(const Target& target, const arch::Run& run) {
  Target result = target;
  const bool cuda = target.device == config::Device::kCuda;
  if (run.config.attn_implementation == config::Attention::kMath) {
    result.attention_kernel = "math attention";
  } else if (run.config.attn_implementation == config::Attention::kCudnn) {
    result.attention_kernel = "cuDNN's attention";
  } else if (cuda && (run.precision.computed == DType::kF32 || !has_flash_attention(target))) {
    result.attention_kernel = "memory-efficient attention";
  } else {
    result.attention_kernel = "flash attention";
  }
  return result;
}

std::vector<Remedy> remedies(const arch::Run& run, const Target& target, const Workload& workload,
                             const ThroughputOf& throughput) {
  return Remedies(run, target, workload, throughput).take();
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
