// `fathom estimate`: what a run will take, before it runs.
#include "app/commands/estimate.h"

#include <ATen/Parallel.h>

#include <limits>

#include "app/allocator_settings.h"
#include "app/commands/estimate_each.h"
#include "app/engine.h"
#include "app/machine.h"
#include "app/run/calibrations.h"
#include "app/run/faster.h"
#include "app/run/planning.h"
#include "app/run/run_report.h"
#include "app/run/session.h"
#include "app/run/strategy.h"
#include "app/waiting.h"
#include "arch/attention_by_scores.h"
#include "arch/read_folder.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/output.h"
#include "config/names.h"
#include "plan/advice/remedies.h"
#include "plan/bound.h"
#include "plan/communicators.h"
#include "plan/inference.h"
#include "plan/outlook.h"
#include "play/attention_curve.h"
#include "play/attention_table.h"
#include "play/dry_run.h"
#include "report/advice_table.h"
#include "report/derivation.h"
#include "report/estimate_table.h"
#include "report/kernel_table.h"
#include "report/memory_json.h"
#include "report/memory_table.h"
#include "report/table.h"
#include "train/inputs.h"
#include "train/resume.h"

namespace fathom::app {
namespace {

// The subject of `estimate MODEL`: batches of max_length, accumulated as the config says, and no data.
plan::Workload full_batches(const arch::Run& run) {
  const schedule::StepShape step = schedule::accumulated(run.config, schedule::largest_batch(run));
  return plan::make_workload(run, schedule::imagined_schedule({step}, {}, schedule::largest_reference(run)));
}

// Resident memory of a process with CUDA's libraries before it has a context or a tensor, with LibTorch 2.11 for CUDA
// 13; measured on a machine without a GPU.
constexpr int64_t kCudaProgramBytes = 470 * kMiB;

plan::OutlookQuestion question_of(const Estimate& invocation, const arch::Run& run, const schedule::RunInputs& inputs,
                                  const std::optional<config::GpuSpec>& gpu, int64_t program_bytes) {
  plan::OutlookQuestion question;
  question.budget = invocation.budget;
  question.program_bytes = gpu ? kCudaProgramBytes : program_bytes;
  if (!run.config.random_init) {
    question.mapped_bytes = inputs.folder->total_bytes() - arch::other_tensors(run.architecture, *inputs.folder).bytes;
  }
  if (!inputs.train.empty()) question.steps = schedule::step_shapes(run.config, inputs.train);
  if (gpu) {
    question.throughput = plan::throughput_of(*gpu, run);
    question.listed_price = gpu->price_per_hour;
  } else {
    question.throughput = cpu_throughput(run, at::get_num_threads());
  }
  return question;
}

// What cannot be reckoned is not left out in silence.
void refuse_tokens_without_speed(const Estimate& invocation, const plan::OutlookQuestion& question) {
  if (!invocation.budget.tokens || question.throughput) return;
  throw UsageError("--tokens: the speed of " + (invocation.gpu ? "this GPU is not listed in configs/gpus.yaml"
                                                               : std::string("this CPU is not known")),
                   invocation.gpu ? "add its figures there" : "run `fathom doctor --calibrate`, or name a --gpu");
}

int print_inference(const Estimate& invocation, const arch::Architecture& architecture) {
  const plan::Inference inference = plan::usual_inference(architecture);
  print(invocation.json ? format_json({{"inference", report::inference_json(inference)}})
                        : report::format_inference(inference, invocation.gpu));
  return 0;
}

// Where the plan does not fit; empty where it does.
std::string describe_help(const plan::Plan& plan, const arch::Run& run, const std::optional<config::GpuSpec>& gpu) {
  const int64_t missing = plan::missing_bytes(plan);
  if (missing == 0) return "";
  const auto throughput = [&](const arch::Run& changed) {
    return gpu ? plan::throughput_of(*gpu, changed) : std::nullopt;
  };
  const std::string help =
      plan::describe_remedies(plan::remedies(run, plan.target, plan.workload, throughput), missing);
  return help.empty() ? "" : report::folded("What would help most, each alone, by formula:\n" + help) + "\n";
}

std::string describe_communicators(const plan::Communicators& communicators, const config::GpuSpec& gpu) {
  if (communicators.each.empty()) return "";
  return report::folded("NCCL is taken to keep " + format_bytes(communicators.bytes()) + " of the GPU's " +
                        format_bytes(gpu.memory_bytes) +
                        " for its own buffers, and the run may have the rest: " + communicators.formula() +
                        ". By the sizes that NCCL gives them and what others measured (NVIDIA/nccl, issues 964 and "
                        "1685), never measured here; NCCL_MAX_P2P_NCHANNELS lowers it.\n");
}

Json to_json(const plan::Communicators& communicators) {
  if (communicators.each.empty()) return nullptr;
  return {{"bytes", communicators.bytes()}, {"formula", communicators.formula()}};
}

// As far as half of the memory that is free and a pass of twenty seconds go; beyond that there is the dry run.
int print_attention(const Estimate& invocation, const Session& session, const arch::Run& run) {
  const play::AttentionLimits limits{.seconds = 20, .bytes = available_memory_bytes() / 2};
  const auto points = play::attention_curve(run, session.placement, limits);
  print(invocation.json ? format_json({{"attention", to_json(points)}}) : play::format_attention(points));
  return 0;
}

int print_kernels(const Estimate& invocation, const arch::Run& run, const schedule::RunInputs& inputs,
                  const std::optional<config::GpuSpec>& gpu) {
  refuse_open_strategy("--kernels", run.config);
  const play::Subject subject{run, *inputs.folder,
                              estimated_workload(run, inputs, schedule::played_on(gpu.has_value()))};
  const plan::KernelList list = [&] {
    const Waiting waiting("planning");
    return gpu ? play::kernels_on_gpu(subject, {.gpu = *gpu}, ask_phantom_children()) : play::kernels_on_cpu(subject);
  }();
  print(invocation.json ? format_json({{"kernels", report::kernels_json(list, gpu, run.config.tf32)}})
                        : report::format_kernels(list, gpu, run.config.tf32));
  return 0;
}

plan::Plan estimated_plan(const arch::Run& run, const schedule::RunInputs& inputs,
                          const std::optional<config::GpuSpec>& gpu, const Estimate& invocation,
                          plan::Detail detail = plan::Detail::kTimeline) {
  constexpr int kPlacements = 4;
  const Waiting waiting("planning");
  const int64_t played = invocation.whole ? std::numeric_limits<int64_t>::max() : schedule::played_on(gpu.has_value());
  const play::Subject subject{run, *inputs.folder, estimated_workload(run, inputs, played)};
  if (!gpu) return plan_for_cpu(subject, run.config.num_processes);
  const play::GpuRoom room{.gpu = *gpu,
                           .placements = invocation.placements.value_or(expands_segments() ? 1 : kPlacements),
                           .detail = detail};
  return plan_for_gpu(subject, room);
}

void print_in_words(const Estimate& invocation, const arch::Run& run, const std::optional<config::GpuSpec>& gpu,
                    const plan::Plan& plan, const plan::Outlook& outlook, const plan::Communicators& communicators,
                    const std::vector<Faster>& faster) {
  if (invocation.is_model) {
    const std::vector<std::string>& given = invocation.words.overrides;
    print(report::folded("Planned with " + report::describe_defaults(given, run) + ".\n\n"));
  }
  print(report::format_memory({plan, std::nullopt}));
  if (gpu) print(describe_communicators(communicators, *gpu));
  print("\n");
  print(describe_help(plan, run, gpu));
  print(report::format_rules({plan, std::nullopt}, invocation.explain));
  print(report::format_outlook(plan, outlook));
  print(report::folded(describe_faster(faster, outlook)));
  if (invocation.explain) {
    print("\n");
    print(report::format_derivation(plan.analytic));
  }
  if (!invocation.page.empty()) print("\npage: " + invocation.page.string() + "\n");
}

int run_estimate(const Estimate& invocation) {
  if (invocation.price_alone) {
    const plan::Budget& budget = invocation.budget;
    print(report::folded(report::describe_price(budget, *plan::cost_of(budget, std::nullopt, /*listed_price=*/0))));
    return 0;
  }
  const Session session = open_session(invocation);
  const int64_t program_bytes = resident_bytes();
  const schedule::RunInputs inputs = train::open_inputs(invocation.config, /*weights_required=*/false);
  if (invocation.inference) return print_inference(invocation, inputs.architecture);
  const arch::Run asked = arch::resolve(invocation.config, inputs.architecture);
  if (invocation.attention && arch::attends_by_scores(asked.architecture, /*training=*/true)) {
    throw UsageError(
        "--attention: the model's attention is by scores that a bias, a cap or dropout changes, and no other kernel "
        "takes it");
  }
  if (invocation.attention) return print_attention(invocation, session, asked);
  std::optional<config::GpuSpec> gpu = invocation.gpu;
  if (!gpu && session.placement.cuda != nullptr) gpu = listed_spec_of(*session.placement.cuda);
  const arch::Run counted = planned_run(asked, inputs.train);
  if (!gpu) warn_of_widening(asked);
  tell_of_updates(asked);
  if (!invocation.each.empty()) return estimate_each(invocation, inputs, gpu);
  if (invocation.kernels) return print_kernels(invocation, counted, inputs, gpu);
  const plan::OutlookQuestion question = question_of(invocation, asked, inputs, gpu, program_bytes);
  refuse_tokens_without_speed(invocation, question);
  const auto [run, plan] = plan_with_strategy(counted, /*group=*/nullptr, [&](const arch::Run& candidate) {
    return estimated_plan(candidate, inputs, gpu, invocation);
  });
  const plan::Outlook outlook = plan::look_ahead(run, plan, question);
  Json json = report::memory_json({plan, std::nullopt});
  json.update(report::outlook_json(plan, outlook));
  const auto plan_of = [&](const arch::Run& changed) {
    return estimated_plan(changed, inputs, gpu, invocation, plan::Detail::kArithmetic);
  };
  const std::vector<Faster> faster =
      gpu ? faster_settings(run, *gpu, plan, outlook, question, plan_of) : std::vector<Faster>();
  json["faster"] = to_json(faster);
  const plan::Communicators communicators = gpu ? communicators_on(*gpu, run.config) : plan::Communicators();
  json["strategy"] = run.config.num_processes > 1 ? Json(config::name_of(run.config.strategy)) : Json(nullptr);
  json["communicators"] = to_json(communicators);
  if (!invocation.page.empty()) {
    const config::RunConfig shown = with_strategy(asked.config, run.config.strategy);
    write_plan_page(invocation.page, arch::resolve(shown, inputs.architecture), invocation.command_line, plan, json);
  }
  if (invocation.json) {
    print(format_json(json));
  } else {
    print_in_words(invocation, run, gpu, plan, outlook, communicators, faster);
  }
  return 0;
}

const InEngine<run_estimate> kEstimate;

}  // namespace

void refuse_open_strategy(const std::string& option, const config::RunConfig& config) {
  if (config.num_processes == 1 || config.strategy != config::Strategy::kAuto) return;
  throw UsageError(option + " of several processes: how they share the model is not said",
                   "add strategy=ddp or strategy=fsdp");
}

plan::Workload estimated_workload(const arch::Run& run, const schedule::RunInputs& inputs, int64_t played) {
  if (inputs.train.empty()) return full_batches(run);
  return plan::make_workload(run, schedule::make_schedule(run, inputs.train, inputs.validation,
                                                          train::start_of(run.config, inputs, std::nullopt), played));
}

}  // namespace fathom::app
