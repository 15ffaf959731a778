// Questions to a phantom GPU and its answers, to JSON and back.
#include "play/exchange.h"

#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"
#include "config/settings.h"
#include "memory/memory_json.h"

namespace fathom::plan {
namespace {

Json to_json(const schedule::BatchShape& batch) {
  return Json::array({batch.rows, batch.length, batch.targets, batch.document_lengths, batch.source_length});
}

Json to_json(const schedule::AnswerShape& answers) {
  return Json::array({answers.rows, answers.first, answers.positions, answers.source_length});
}

schedule::AnswerShape answers_from_json(const Json& value) {
  return {value.at(0).get<int64_t>(), value.at(1).get<int64_t>(), value.at(2).get<int64_t>(),
          value.at(3).get<int64_t>()};
}

schedule::BatchShape batch_from_json(const Json& value) {
  return {value.at(0).get<int64_t>(), value.at(1).get<int64_t>(), value.at(2).get<int64_t>(),
          value.at(3).get<std::vector<int64_t>>(), value.at(4).get<int64_t>()};
}

Json to_json(const std::vector<schedule::BatchShape>& batches) {
  Json result = Json::array();
  for (const schedule::BatchShape& batch : batches) result.push_back(to_json(batch));
  return result;
}

std::vector<schedule::BatchShape> batches_from_json(const Json& value) {
  std::vector<schedule::BatchShape> batches;
  for (const Json& batch : value) batches.push_back(batch_from_json(batch));
  return batches;
}

Json to_json(const schedule::Schedule& schedule) {
  Json steps = Json::array();
  for (const schedule::StepShape& step : schedule.steps) steps.push_back(to_json(step));
  Json answers = Json::array();
  for (const schedule::AnswerShape& shape : schedule.answers) answers.push_back(to_json(shape));
  return {{"steps", steps},
          {"answers", answers},
          {"evaluation", to_json(schedule.evaluation)},
          {"evaluation_order", schedule.evaluation_order},
          {"reference_order", schedule.reference_order},
          {"others_evaluate_one_more", schedule.others_evaluate_one_more},
          {"events", schedule.events},
          {"all_events", schedule.all_events},
          {"all_shapes", schedule.all_shapes},
          {"of_all", schedule.of_all},
          {"extent", {schedule.extent.tokens, schedule.extent.source_tokens}},
          {"rank", schedule.rank}};
}

// Throws Error for an event that is none.
void check_index(int32_t index, int32_t least, size_t count) {
  if (index < least || index >= static_cast<int64_t>(count)) {
    throw Error("the question to a phantom GPU names event " + std::to_string(index) + " of " + std::to_string(count));
  }
}

schedule::Schedule schedule_from_json(const Json& value) {
  schedule::Schedule schedule;
  for (const Json& step : value.at("steps")) schedule.steps.push_back(batches_from_json(step));
  for (const Json& answers : value.value("answers", Json::array())) {
    schedule.answers.push_back(answers_from_json(answers));
  }
  schedule.evaluation = batches_from_json(value.at("evaluation"));
  schedule.evaluation_order = value.at("evaluation_order").get<std::vector<int32_t>>();
  schedule.reference_order = value.value("reference_order", std::vector<int32_t>());
  schedule.others_evaluate_one_more = value.value("others_evaluate_one_more", false);
  schedule.events = value.at("events").get<std::vector<int32_t>>();
  schedule.all_events = value.at("all_events").get<bool>();
  schedule.all_shapes = value.at("all_shapes").get<bool>();
  schedule.rank = value.value("rank", int64_t{0});
  schedule.extent = {value.at("extent").at(0).get<int64_t>(), value.at("extent").at(1).get<int64_t>()};
  schedule.of_all = value.value("of_all", std::vector<int64_t>());
  for (const auto* order : {&schedule.evaluation_order, &schedule.reference_order}) {
    for (const int32_t batch : *order) check_index(batch, 0, schedule.evaluation.size());
  }
  for (const int32_t event : schedule.events) {
    check_index(event, schedule::Schedule::kReference, schedule.steps.size());
  }
  return schedule;
}

Json to_json(const Arithmetic& arithmetic) {
  const DeviceTime& device = arithmetic.device;
  return {{"matrix_flops", arithmetic.matrix_flops},
          {"attention_flops", arithmetic.attention_flops},
          {"bytes_moved", arithmetic.bytes_moved},
          {"device", {device.matrix_ns, device.attention_ns, device.memory_ns, device.launches, device.recorded}}};
}

Arithmetic arithmetic_from_json(const Json& value) {
  const Json& device = value.at("device");
  return {.matrix_flops = value.at("matrix_flops").get<int64_t>(),
          .attention_flops = value.at("attention_flops").get<int64_t>(),
          .bytes_moved = value.at("bytes_moved").get<int64_t>(),
          .device = {device.at(0).get<int64_t>(), device.at(1).get<int64_t>(), device.at(2).get<int64_t>(),
                     device.at(3).get<int64_t>(), device.at(4).get<int64_t>()}};
}

Json to_json(const StepArithmetic& arithmetic) {
  Json value;
  for (const memory::Phase phase : StepArithmetic::kPhases) {
    value[std::string(memory::phase_name(phase))] = to_json(arithmetic.of(phase));
  }
  return value;
}

StepArithmetic step_arithmetic_from_json(const Json& value) {
  StepArithmetic arithmetic;
  for (const memory::Phase phase : StepArithmetic::kPhases) {
    arithmetic.of(phase) = arithmetic_from_json(value.at(std::string(memory::phase_name(phase))));
  }
  return arithmetic;
}

constexpr std::array<std::pair<Detail, const char*>, 4> kDetails = {{{Detail::kBytes, "bytes"},
                                                                     {Detail::kArithmetic, "arithmetic"},
                                                                     {Detail::kTimeline, "timeline"},
                                                                     {Detail::kEvents, "events"}}};

const char* name_of(Detail detail) { return kDetails[static_cast<size_t>(detail)].second; }

Detail detail_of(const std::string& name) {
  for (const auto& [detail, its_name] : kDetails) {
    if (its_name == name) return detail;
  }
  throw Error("the question to a phantom GPU asks for the detail \"" + name + "\", which there is not");
}

}  // namespace

Json to_json(const PhantomQuestion& question) {
  return {{"config", config::settings_of(question.config)},
          {"added_tokens", question.added_tokens},
          {"memory_bytes", question.memory_bytes},
          {"taken_bytes", question.taken_bytes},
          {"placement", question.placement},
          {"detail", name_of(question.detail)},
          {"kernels", question.kernels},
          {"trace", question.trace},
          {"operator_times", question.operator_times},
          {"schedule", to_json(question.schedule)}};
}

PhantomQuestion question_from_json(const Json& value) try {
  PhantomQuestion question;
  question.config =
      config::config_of(value.at("config").get<config::Settings>(), "the config in the question to a phantom GPU");
  question.added_tokens = value.value("added_tokens", int64_t{0});
  question.memory_bytes = value.at("memory_bytes").get<int64_t>();
  question.taken_bytes = value.value("taken_bytes", int64_t{0});
  question.placement = value.at("placement").get<uint64_t>();
  question.detail = detail_of(value.at("detail").get<std::string>());
  question.kernels = value.value("kernels", false);
  question.trace = value.value("trace", "");
  question.operator_times = value.value("operator_times", "");
  question.schedule = schedule_from_json(value.at("schedule"));
  return question;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("the question to a phantom GPU has another form than expected: ") + reason_of(error));
}

Json to_json(const PhantomAnswer& answer) {
  Json value = {{"attention_kernel", answer.attention_kernel},
                {"requested", answer.requested},
                {"allocated", answer.allocated},
                {"reserved", answer.reserved}};
  if (!answer.out_of_memory.empty()) {
    value["out_of_memory"] = answer.out_of_memory;
    return value;
  }
  value["memory"] = memory::to_json(answer.memory);
  value["arithmetic"] = to_json(answer.arithmetic);
  value["steps_played"] = answer.steps_played;
  value["exact"] = answer.exact;
  value["seconds"] = answer.seconds;
  if (answer.kernels) value["kernels"] = to_json(*answer.kernels);
  if (!answer.timeline.blocks.empty()) value["timeline"] = memory::to_json(answer.timeline);
  return value;
}

PhantomAnswer answer_from_json(const Json& value) try {
  if (value.contains("error")) throw Error(value.at("error").get<std::string>());
  PhantomAnswer answer;
  answer.attention_kernel = value.at("attention_kernel").get<std::string>();
  answer.requested = value.at("requested").get<int64_t>();
  answer.allocated = value.at("allocated").get<int64_t>();
  answer.reserved = value.at("reserved").get<int64_t>();
  if (value.contains("out_of_memory")) {
    answer.out_of_memory = value.at("out_of_memory").get<std::string>();
    return answer;
  }
  answer.memory = memory::memory_from_json(value.at("memory"));
  answer.arithmetic = step_arithmetic_from_json(value.at("arithmetic"));
  answer.steps_played = value.at("steps_played").get<int64_t>();
  answer.exact = value.at("exact").get<bool>();
  answer.seconds = value.at("seconds").get<double>();
  if (value.contains("kernels")) answer.kernels = kernels_from_json(value.at("kernels"));
  if (value.contains("timeline")) answer.timeline = memory::timeline_from_json(value.at("timeline"));
  return answer;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("the answer of a phantom GPU has another form than expected: ") + reason_of(error));
}

}  // namespace fathom::plan
