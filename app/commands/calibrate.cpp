// `fathom doctor --calibrate`: measures what plans cannot know, and keeps it. On the CPU speeds; on a GPU what the
// driver uses beneath the runtime, in fresh processes: one for each combination of settings that decides about kernels;
// and in another one what operators take.
#include "app/commands/calibrate.h"

#include <array>
#include <chrono>
#include <ctime>

#include "app/engine.h"
#include "app/machine.h"
#include "app/run/calibrations.h"
#include "app/run/session.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/output.h"
#include "phantom_gpu/child.h"
#include "plan/time/operator_times.h"
#include "play/measure_operators.h"
#include "play/measure_overhead.h"
#include "play/measure_speed.h"
#include "report/calibration_table.h"

namespace fathom::app {
namespace {

constexpr std::chrono::minutes kPatienceWithOne{3};  // with one combination

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc);
  return text.data();
}

// The command line of the child that measures one combination.
std::vector<std::string> arguments_of(const plan::KernelSettings& settings, const Invocation& invocation) {
  std::vector<std::string> arguments = {"answer-overhead"};
  const auto add = [&](bool set, const char* flag) {
    if (set) arguments.emplace_back(flag);
  };
  add(settings.narrow, "--bf16");
  add(settings.attention == config::Attention::kMath, "--math");
  add(settings.method == config::Method::kLora, "--lora");
  add(settings.checkpointing, "--gradient-checkpointing");
  if (invocation.phantom_gpu) arguments.insert(arguments.end(), {"--phantom-gpu", invocation.phantom_gpu->name});
  return arguments;
}

plan::Calibration calibrate_cpu(const Invocation& invocation) {
  const Session session = open_session(invocation);
  log_info("measuring the CPU; other work on this machine makes it look slower");
  const auto tell = [](const plan::MeasuredSpeed& speed) {
    log_progress("measured " + std::to_string(speed.threads) + " threads, " + (speed.narrow ? "BF16" : "FP32") +
                 ", width " + std::to_string(speed.width));
  };
  return {cpu_name(), today(), play::measure_speeds(session.placement, tell), {}};
}

plan::Calibration calibrate_gpu(const std::string& name, const Invocation& invocation) {
  plan::Calibration calibration{name, today(), {}, {}};
  log_info("measuring " + name + " in " + std::to_string(play::all_kernel_settings().size()) +
           " fresh processes; it must be free of other work");
  for (const plan::KernelSettings& settings : play::all_kernel_settings()) {
    const Json answer = phantom_gpu::run_child(phantom_gpu::this_program(), arguments_of(settings, invocation),
                                               Json::object(), kPatienceWithOne);
    const auto bytes = answer.find("bytes");
    if (bytes == answer.end() || !bytes->is_number_integer()) throw Error("a measurement gave no bytes");
    calibration.overheads.push_back({settings, bytes->get<int64_t>()});
  }
  return calibration;
}

void calibrate_operators(const std::string& name) {
  constexpr std::chrono::minutes kLongest{10};
  log_info("timing the operators of training steps on " + name);
  const Json table =
      phantom_gpu::run_child(phantom_gpu::this_program(), {"answer-operators"}, Json::object(), kLongest);
  const auto times = plan::OperatorTimes::from_json(table, "what was measured");  // as plans will read it
  const std::filesystem::path file = save_operator_times(times.device(), table);
  log_info("kept " + format_count(std::ssize(table.at("products"))) + " products, " +
           format_count(std::ssize(table.at("attention"))) + " passes of attention and " +
           format_count(std::ssize(table.at("streams"))) + " others in " + file.string());
}

int run_calibrate(const Calibrate& invocation) {
  Json json = Json::array();
  // At once: a GPU that fails leaves what was measured of the CPU.
  const auto keep = [&](const plan::Calibration& calibration) {
    const std::filesystem::path file = plan::save_calibration(calibration_folder(), calibration);
    json.push_back(to_json(calibration));
    if (invocation.json) return;
    print(report::format_calibration(calibration) + "Kept in " + file.string() + "\n");
  };
  if (invocation.phantom_gpu) {
    keep(calibrate_gpu("phantom " + invocation.phantom_gpu->name, invocation));
  } else {
    keep(calibrate_cpu(invocation));
    if (const std::vector<Gpu> gpus = this_gpus(); !gpus.empty()) {
      keep(calibrate_gpu(gpus.front().name, invocation));
      if (config::has_bf16(gpus.front().compute_capability)) {
        calibrate_operators(gpus.front().name);
      } else {
        log_info("its operators are not timed, which takes a GPU that multiplies in BF16");
      }
    }
  }
  if (invocation.json) print(format_json(json));
  return 0;
}

int run_answer_overhead(const AnswerOverhead& invocation) {
  const Session session = open_session(invocation);
  print(Json{{"bytes", play::measure_overhead(invocation.config, session.placement)}}.dump() + "\n");
  return 0;
}

int run_answer_operators(const AnswerOperators& invocation) {
  const Session session = open_session(invocation);
  play::TableHead head;
  head.gpu = listed_spec_of(*session.placement.cuda);
  head.measured_on = today();
  const auto tell = [](const std::string& run) { log_progress("timing " + run); };
  const bool own = std::filesystem::exists(cuda_kernels_file());
  print(play::measure_operators(head, own, session.placement, tell).dump() + "\n");
  return 0;
}

const InEngine<run_calibrate> kCalibrate;
const InEngine<run_answer_overhead> kAnswerOverhead;
const InEngine<run_answer_operators> kAnswerOperators;

}  // namespace
}  // namespace fathom::app
