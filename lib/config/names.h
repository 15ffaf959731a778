// The words by which a config calls the values of RunConfig's enumerations.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "config/run_config.h"

namespace fathom::config {

template <typename T, size_t N>
using Names = std::array<std::pair<T, std::string_view>, N>;

inline constexpr Names<Device, 3> kDeviceNames{
    {{Device::kAuto, "auto"}, {Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}}};
inline constexpr Names<Method, 2> kMethodNames{{{Method::kFull, "full"}, {Method::kLora, "lora"}}};
inline constexpr Names<Strategy, 3> kStrategyNames{
    {{Strategy::kDdp, "ddp"}, {Strategy::kFsdp, "fsdp"}, {Strategy::kAuto, "auto"}}};
inline constexpr Names<Attention, 3> kAttentionNames{
    {{Attention::kFlash, "flash"}, {Attention::kMath, "math"}, {Attention::kCudnn, "cudnn"}}};
inline constexpr Names<Schedule, 4> kScheduleNames{{{Schedule::kConstant, "constant"},
                                                    {Schedule::kConstantWithWarmup, "constant_with_warmup"},
                                                    {Schedule::kLinear, "linear"},
                                                    {Schedule::kCosine, "cosine"}}};
inline constexpr Names<Cadence, 3> kCadenceNames{
    {{Cadence::kNo, "no"}, {Cadence::kSteps, "steps"}, {Cadence::kEpoch, "epoch"}}};
inline constexpr Names<DatasetFormat, 8> kDatasetFormatNames{{{DatasetFormat::kAuto, "auto"},
                                                              {DatasetFormat::kText, "text"},
                                                              {DatasetFormat::kPromptCompletion, "prompt_completion"},
                                                              {DatasetFormat::kTokenIds, "input_ids"},
                                                              {DatasetFormat::kMessages, "messages"},
                                                              {DatasetFormat::kShareGpt, "sharegpt"},
                                                              {DatasetFormat::kAlpaca, "alpaca"},
                                                              {DatasetFormat::kPreference, "preference"}}};
// Of a table whose rows begin with the value and have its name.
template <auto member, typename Row, size_t N>
constexpr auto names_of(const Row (&rows)[N]) {
  Names<std::remove_cvref_t<decltype(rows[0].*member)>, N> names{};
  for (size_t i = 0; i < N; ++i) names[i] = {rows[i].*member, rows[i].name};
  return names;
}
inline constexpr auto kOptimizerNames = names_of<&OptimizerRow::optimizer>(kOptimizers);
inline constexpr auto kObjectiveNames = names_of<&ObjectiveRow::objective>(kObjectives);
inline constexpr auto kLossTypeNames = names_of<&LossTypeRow::type>(kLossTypes);
inline constexpr Names<Qat, 3> kQatNames{{{Qat::kNone, "none"}, {Qat::kInt8, "int8"}, {Qat::kInt4, "int4"}}};
inline constexpr Names<QatActivations, 2> kQatActivationsNames{
    {{QatActivations::kNone, "none"}, {QatActivations::kInt8, "int8"}}};
inline constexpr Names<MasterWeights, 3> kMasterWeightsNames{
    {{MasterWeights::kNone, "none"}, {MasterWeights::kFp32, "fp32"}, {MasterWeights::kStochastic, "stochastic"}}};
inline constexpr Names<ReportTo, 2> kReportToNames{
    {{ReportTo::kNone, "none"}, {ReportTo::kTensorBoard, "tensorboard"}}};

template <typename T, size_t N>
constexpr std::string_view name_in(const Names<T, N>& names, T value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "";
}

inline std::string_view name_of(Device value) { return name_in(kDeviceNames, value); }
inline std::string_view name_of(Method value) { return name_in(kMethodNames, value); }
inline std::string_view name_of(Strategy value) { return name_in(kStrategyNames, value); }
inline std::string_view name_of(Attention value) { return name_in(kAttentionNames, value); }
inline std::string_view name_of(Schedule value) { return name_in(kScheduleNames, value); }
inline std::string_view name_of(Objective value) { return row_of(value).name; }
inline std::string_view name_of(LossType value) { return row_of(value).name; }
inline std::string_view name_of(Qat value) { return name_in(kQatNames, value); }
inline std::string_view name_of(MasterWeights value) { return name_in(kMasterWeightsNames, value); }
inline std::string_view name_of(Cadence value) { return name_in(kCadenceNames, value); }

}  // namespace fathom::config
