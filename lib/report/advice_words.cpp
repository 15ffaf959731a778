// Sentences of advice, folded for a terminal.
#include "report/advice_words.h"

#include "base/bytes.h"
#include "base/numbers.h"
#include "plan/advice/memory_keys.h"
#include "plan/advice/techniques.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using plan::Combination;

std::string describe_change(const Combination& combination) {
  const bool first = combination.turn == plan::Turn::kFirst;
  switch (combination.change) {
    case plan::UpdateChange::kNone:
      return "";
    case plan::UpdateChange::kRounded:
      return first ? "Nothing fits with the run's own optimizer: this one makes the same update from states in fewer "
                     "bits.\n"
                   : "The optimizer makes the same update from states in fewer bits.\n";
    case plan::UpdateChange::kUnclipped:
      return "Gradients are not clipped (max_grad_norm=0): each is let go before the norm of all is known.\n";
    case plan::UpdateChange::kAnother:
      return "Nothing fits with the update of the run's own optimizer: this one makes another, which wants a learning "
             "rate of its own.\n";
  }
  return "";
}

std::string describe_host(const AdviceSubject& subject, const Combination& combination) {
  if (combination.host_bytes == 0) return "";
  std::string text = format_bytes(combination.host_bytes) + " lie in the host's memory, pinned";
  if (subject.question.host_bytes) {
    text += ", of " + format_bytes(*subject.question.host_bytes) + " that may (--host-memory)";
  }
  if (!combination.seconds) return text + ".\n";
  return text + (combination.host_seconds > 0
                     ? "; copies add " + format_by("%.2f s", combination.host_seconds) + " to a step.\n"
                     : "; what computes hides the copies.\n");
}

bool is_on_gpu(const AdviceSubject& subject) { return subject.question.target.device == config::Device::kCuda; }

// "offload_optimizer and optimizer_in_backward"; empty: GPUs have run all of it.
std::string untried_keys(const AdviceSubject& subject, const config::RunConfig& run) {
  if (!is_on_gpu(subject)) return "";
  const std::vector<std::string_view> keys = plan::untried_on_gpus(run);
  return joined({keys.begin(), keys.end()}, " and ");
}

std::string describe_enough(const plan::Advice& advice) {
  if (!advice.enough) return "";
  return advice.enough->empty() ? "No GPU of configs/gpus.yaml would do.\n"
                                : "It would fit, by dry run, on " + joined(*advice.enough, ", ") + ".\n";
}

// What no GPU has run, and what there is without it.
std::string describe_untried(const AdviceSubject& subject, const plan::Advice& advice) {
  const std::string keys = untried_keys(subject, advice.best->run);
  if (keys.empty()) return "";
  std::string text =
      "No GPU has run " + keys + " yet (docs/gpu-claims.md): bytes were played on a phantom GPU, time is reckoned.\n";
  if (advice.smallest_tried) {
    text += "Of what GPUs have run, the smallest, " + joined(advice.smallest_tried->techniques, ", ") + ", needs " +
            need_of(*advice.smallest_tried) + ".\n" + describe_enough(advice);
  }
  return text;
}

std::string describe_faster_untried(const AdviceSubject& subject, const plan::Advice& advice) {
  if (!advice.untried) return "";
  return folded(joined(advice.untried->techniques, ", ") + " is expected to take " +
                format_by("%.1f %%", 100 * (1 - *advice.untried->seconds / *advice.best->seconds)) +
                " less time, but no GPU has run " + untried_keys(subject, advice.untried->run) + " yet:\n") +
         settings_lines(subject, advice.untried->run);
}

std::string describe_nothing(const AdviceSubject& subject, const plan::Advice& advice) {
  const auto host = subject.question.host_bytes;
  return ": nothing fits, with any setting that saves memory" +
         (host ? " and up to " + format_bytes(*host) + " in the host's (--host-memory)" : std::string()) +
         ". The smallest, " + joined(advice.smallest->techniques, ", ") + ", needs " + need_of(*advice.smallest) +
         ".\n" + describe_enough(advice);
}

std::string describe_next(const plan::Advice& advice) {
  if (advice.by_room) return "";
  if (!advice.settled) {
    return "Not settled after " + format_count(advice.dry_runs) +
           " dry runs: it is the fastest of those that they proved to fit, and a faster one may fit too.\n";
  }
  return advice.next ? "" : "No combination is faster.\n";
}

}  // namespace

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

std::string need_of(const plan::Candidate& candidate) {
  return format_bytes(candidate.proof ? candidate.proof->need : candidate.formula);
}

std::string describe_defaults(const std::vector<std::string>& given, const arch::Run& run) {
  const auto bits = [](DType type) { return type == DType::kF32 ? "FP32" : type == DType::kBF16 ? "BF16" : "FP16"; };
  const std::string base = run.config.method == config::Method::kFull ? "full, " : "LoRA, ";
  const std::string type = run.precision.autocast ? std::string(bits(run.precision.computed)) + " autocast"
                                                  : std::string(bits(run.precision.stored));
  return (given.empty() ? "" : joined(given, ", ") + " and else ") + "the defaults (" + base + type + ", " +
         format_count(run.config.per_device_train_batch_size) + " × " + format_count(run.config.max_length) + ")";
}

std::string describe_limit(const AdviceSubject& subject, const std::optional<plan::Candidate>& answer) {
  if (!answer || !answer->proof->near_limit) return "";
  const std::string others = is_on_gpu(subject) ? "others take of the GPU (the driver's own share" +
                                                      std::string(subject.desktop_bytes > 0 ? ", a desktop" : "") + ")"
                                                : "the process takes beside tensors";
  return "Near the limit: it fits only if what " + others + " is less than the " +
         format_bytes(subject.question.target.capacity_bytes - answer->proof->need) +
         " that it leaves. A smaller --budget leaves more.\n";
}

std::string describe_subject(const AdviceSubject& subject) {
  const plan::Target& target = subject.question.target;
  const bool gpu = is_on_gpu(subject);
  const int64_t processes = subject.question.run.config.num_processes;
  const std::string count = processes > 1 ? "each of " + format_count(processes) + " " : "";
  std::string text =
      std::string(gpu ? "On " + (count.empty() ? "GPU " : count + "GPUs ") + target.name : "On the CPU") + ", within " +
      format_bytes(target.capacity_bytes) + (gpu ? " for LibTorch's allocator" : " for live bytes and kernel scratch");
  if (subject.free_bytes > 0) {
    text += ", of which " + format_bytes(subject.free_bytes) + " shall stay free for " +
            (gpu ? "the driver's own share" : "what the process takes beside tensors");
    if (subject.desktop_bytes > 0) text += " and a desktop (" + format_bytes(subject.desktop_bytes) + ")";
  }
  const std::string run = subject.defaults.empty() ? "As it is, the run" : "With " + subject.defaults + " a run";
  if (!subject.as_it_is_refused.empty()) {
    return text + ". " + run + (subject.defaults.empty() ? " is" : " would be") +
           " refused: " + subject.as_it_is_refused;
  }
  return text + ". " + run + (subject.defaults.empty() ? " needs " : " would need ") +
         format_bytes(subject.as_it_is.need) +
         (subject.as_it_is.near_limit ? ", which is near the limit."
          : subject.as_it_is.fits     ? " and fits."
                                      : (subject.defaults.empty() ? " and does not fit." : ", which does not fit."));
}

std::string describe_concessions(const AdviceSubject& subject, const plan::Advice& advice) {
  return describe_change(*advice.best) + describe_host(subject, *advice.best) + describe_untried(subject, advice) +
         describe_limit(subject, advice.best);
}

std::string settings_lines(const AdviceSubject& subject, const config::RunConfig& run) {
  const std::vector<std::string> settings = plan::settings_between(subject.question.run.config, run);
  if (settings.empty()) return "  the run as it is\n";
  std::string text = folded("  " + joined(settings, " "), kTerminalColumns - 2);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) text.insert(at, " \\");
  return text + "\n";
}

std::string describe_best(const AdviceSubject& subject, const plan::Advice& advice, const std::string& of) {
  const std::string what = (advice.by_room && advice.best ? "Most room" : "Least time") + of;
  if (!advice.best) return folded(what + describe_nothing(subject, advice));
  std::string text;
  if (advice.by_room) text += "Nothing leaves that much free: of what fits, this leaves the most room.\n";
  text += describe_concessions(subject, advice) + describe_next(advice);
  if (advice.next) {
    const bool near = advice.next->proof && advice.next->proof->near_limit;
    text += "The next faster one, " + joined(advice.next->techniques, ", ") + ", needs " + need_of(*advice.next) +
            (near                 ? " and fits only near the limit (dry run).\n"
             : advice.next->proof ? " and does not fit (dry run).\n"
                                  : " by formula.\n");
  }
  return what + ":\n" + settings_lines(subject, advice.best->run) + folded(text) +
         describe_faster_untried(subject, advice);
}

}  // namespace fathom::report
