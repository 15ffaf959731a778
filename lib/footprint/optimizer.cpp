// One branch for each optimizer.
#include "footprint/optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/rounding.h"
#include "footprint/moment_storage.h"
#include "footprint/offload.h"
#include "footprint/update_groups.h"

namespace fathom::footprint {
namespace {

constexpr auto kStates = memory::Component::kOptimizerStates;
constexpr const char* kAdamW = "AdamW keeps two moments (Loshchilov and Hutter 2017, arXiv 1711.05101)";
constexpr const char* k8bit = "moments in 8 bits, by blocks of 256 (Dettmers et al. 2022, arXiv 2110.02861)";
constexpr const char* kMasters = "FP32 masters of BF16 weights (Micikevicius et al. 2017, arXiv 1710.03740)";
constexpr const char* kLion = "Lion keeps one momentum, in FP32 (Chen et al. 2023, arXiv 2302.06675)";
constexpr const char* kAdafactor =
    "Adafactor keeps one mean for each row and column, in FP32 (Shazeer and Stern 2018, arXiv 1804.04235)";
constexpr const char* kOnHost = "a piece of a parameter at a time; lib/footprint/offload.h";
constexpr const char* kUpdate = "one parameter's update in FP32, by ATen's operators; lib/optim";
constexpr const char* kGroup = "a group of parameters in FP32, by ATen's operators; lib/optim/mixed_adamw.h";

int64_t elements_of(const TrainedSizes& sizes) {
  return sizes.columns == 0 ? sizes.rows : checked_multiply(sizes.rows, sizes.columns, "elements of a matrix");
}

Tensors adamw_moments(const config::RunConfig& run, const std::vector<TrainedSizes>& trained) {
  const MomentStorage storage = moment_storage(run.optim, run.master_weights);
  std::map<int64_t, int64_t> numbers;  // bytes of one number of a moment -> numbers of each moment
  int64_t scales = 0, masters = 0;
  for (const TrainedSizes& each : trained) {
    const int64_t elements = elements_of(each);
    numbers[bytes_of_moment(storage, elements, each.bytes)] += elements;
    scales += scales_of_moment(storage, elements);
    if (run.master_weights == config::MasterWeights::kFp32 && each.bytes < 4) masters += elements;
  }
  Tensors states = {{"masters", kMasters, {{masters, "parameters"}, {4, "bytes"}}, kStates}};
  for (const auto& [bytes, count] : numbers) {
    const char* source = bytes == 1 ? k8bit : kAdamW;
    states.push_back({"moments", source, {{2, "of"}, {count, "parameters"}, {bytes, "bytes"}}, kStates});
  }
  states.push_back({"scales of moments", k8bit, {{2, "of"}, {scales, "scales"}, {4, "bytes"}}, kStates});
  return states;
}

// What AdamW's kernels on a GPU read besides.
void add_constants(const config::RunConfig& run, const std::vector<TrainedSizes>& trained, Tensors& states) {
  const MomentStorage storage = moment_storage(run.optim, run.master_weights);
  if (!run.cuda_kernels.value_or(false)) states.push_back({"step count", kAdamW, {{4, "bytes"}}, kStates});
  const auto in_codes = [&](const TrainedSizes& each) { return is_quantized(storage, elements_of(each)); };
  if (std::any_of(trained.begin(), trained.end(), in_codes)) {
    states.push_back({"tables of codes", k8bit, {{int64_t{2} * (256 + 255), "numbers"}, {4, "bytes"}}, kStates});
  }
}

// Of each number that is trained, or of rows and columns.
Tensors states_of(const config::RunConfig& run, const std::vector<TrainedSizes>& trained) {
  int64_t parameters = 0, sides = 0;
  for (const TrainedSizes& each : trained) {
    parameters = checked_add(parameters, elements_of(each), "trained parameters");
    sides = checked_add(sides, checked_add(each.rows, each.columns, "sides"), "sides");
  }
  switch (run.optim) {
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      return adamw_moments(run, trained);
    case config::Optimizer::kLion:
      return {{"momentum", kLion, {{parameters, "parameters"}, {4, "bytes"}}, kStates}};
    case config::Optimizer::kAdafactor:
      return {{"means of squared gradients", kAdafactor, {{sides, "rows and columns"}, {4, "bytes"}}, kStates}};
    case config::Optimizer::kSgd:
      break;
  }
  return {};
}

// Those whose states lie in the host's memory, or the others.
std::vector<TrainedSizes> kept_on_host(const config::RunConfig& run, const std::vector<TrainedSizes>& trained,
                                       bool on_host) {
  std::vector<TrainedSizes> some;
  for (const TrainedSizes& each : trained) {
    if ((run.offload_optimizer && is_offloaded(elements_of(each))) == on_host) some.push_back(each);
  }
  return some;
}

// Of the states of n of a parameter's numbers, from the first of a block on, each in its place.
int64_t slot_bytes(const config::RunConfig& run, const TrainedSizes& parameter, int64_t n) {
  const auto place = [](int64_t bytes) { return round_up(bytes, kStagingAlignment); };
  if (!config::row_of(run.optim).is_adamw) return place(4 * n);  // Lion's momentum
  const MomentStorage storage = moment_storage(run.optim, run.master_weights);
  const int64_t elements = elements_of(parameter), block = block_of_moments(storage, elements);
  int64_t bytes = 2 * place(n * bytes_of_moment(storage, elements, parameter.bytes));
  if (block > 1) bytes += 2 * place(4 * divide_up(n, block));
  const bool has_master = run.master_weights == config::MasterWeights::kFp32 && parameter.bytes < 4;
  return bytes + (has_master ? place(4 * n) : 0);
}

// The slots that states pass through, each as large as those of the largest piece.
Bytes staging(const config::RunConfig& run, const std::vector<TrainedSizes>& offloaded) {
  int64_t largest = 0, pieces = 0;
  for (const TrainedSizes& each : offloaded) {
    largest = std::max(largest, slot_bytes(run, each, std::min(elements_of(each), kPieceElements)));
    pieces += pieces_of(elements_of(each));
  }
  const int64_t slots = pieces == 0 ? 0 : staging_slots(largest, pieces);
  return {"optimizer states on their way",
          kOnHost,
          {{slots, "slots"}, {largest, "bytes"}},
          memory::Component::kFunctionality};
}

bool is_smaller(const TrainedSizes& one, const TrainedSizes& other) { return elements_of(one) < elements_of(other); }

// Lion's and Adafactor's updates go over a parameter at a time.
Tensors change_of(const TrainedSizes& parameter) {
  const Product wide = {{parameter.rows, ""}, {std::max<int64_t>(1, parameter.columns), ""}, {4, "bytes"}};
  Tensors instant;
  if (parameter.bytes < 4) instant.push_back({"gradient in FP32", kUpdate, wide});
  instant.push_back({"change of a parameter", kUpdate, wide});
  return instant;
}

// MixedAdamW::Group::update over the largest group of a kind.
std::vector<Tensors> group_update(const config::RunConfig& run, int64_t elements, bool narrow, bool quantized) {
  const bool stochastic = narrow && run.master_weights == config::MasterWeights::kStochastic;
  const bool narrow_moments = moment_storage(run.optim, run.master_weights) == MomentStorage::kBf16;
  const auto each = [&](const char* what, int64_t bytes) -> Bytes {
    return {what, kGroup, {{elements, "elements"}, {bytes, "bytes"}}};
  };
  Tensors standing;
  if (narrow_moments || quantized) standing.push_back(each("both moments in FP32", 8));
  if (narrow && run.master_weights != config::MasterWeights::kFp32) standing.push_back(each("weights in FP32", 4));
  const auto with = [&](const Bytes& more) {
    Tensors instant = standing;
    instant.push_back(more);
    return instant;
  };
  std::vector<Tensors> instants;
  if (narrow) instants.push_back(with(each("gradients in FP32", 4)));
  if (stochastic || narrow_moments) instants.push_back(with(each("random bits, and draws from them", 9)));
  if (quantized) {
    instants.push_back(with(each("codes", 4)));
    instants.push_back({each("moments in FP32, and their codes as indices", 12)});
  }
  return instants;
}

std::vector<Tensors> group_updates(const config::RunConfig& run, const std::vector<TrainedSizes>& trained) {
  const MomentStorage storage = moment_storage(run.optim, run.master_weights);
  std::vector<UpdatedParameter> parameters;
  parameters.reserve(trained.size());
  for (const TrainedSizes& each : trained) {
    parameters.push_back({elements_of(each), each.bytes < 4, is_quantized(storage, elements_of(each))});
  }
  std::map<std::pair<bool, bool>, int64_t> largest;
  for (const UpdateGroup& group : update_groups(parameters)) {
    const UpdatedParameter& any = parameters[group.front().parameter];
    int64_t& elements = largest[{any.narrow, any.quantized}];
    elements = std::max(elements, elements_of(group));
  }
  std::vector<Tensors> instants;
  for (const auto& [kind, elements] : largest) {
    for (Tensors& instant : group_update(run, elements, kind.first, kind.second))
      instants.push_back(std::move(instant));
  }
  return instants;
}

std::vector<Tensors> norm_of_gradients(const config::RunConfig& run, const std::vector<TrainedSizes>& trained,
                                       bool scales_loss) {
  constexpr const char* kNorms = "the norm of all gradients, for clipping (Pascanu et al. 2013, arXiv 1211.5063)";
  if (run.cuda_kernels.value_or(false)) {
    int64_t sums = 0;
    for (const TrainedSizes& each : trained) sums += divide_up(elements_of(each), kSquaresPerSum);
    return {{{"sums of squares", kNorms, {{sums, "sums"}, {4, "bytes"}}}}};
  }
  if (run.max_grad_norm == 0 && !scales_loss) return {};
  const int64_t chunk = 65536;  // elements for which LibTorch's multi-tensor kernels give one number
  std::map<int64_t, std::pair<int64_t, int64_t>> of_type;  // bytes of an element -> tensors, chunks of the largest
  for (const TrainedSizes& each : trained) {
    auto& [tensors, chunks] = of_type[each.bytes];
    tensors += 1;
    chunks = std::max(chunks, divide_up(elements_of(each), chunk));
  }
  std::vector<Tensors> instants;
  instants.reserve(of_type.size());
  for (const auto& [bytes, count] : of_type) {
    instants.push_back(
        {{"norms of chunks", kNorms, {{count.first, "tensors"}, {count.second + 1, "chunks"}, {4, "bytes"}}}});
  }
  return instants;
}

// Moments are read and written; masters too, in the place of the weights, which are written alone.
int64_t adamw_traffic(const config::RunConfig& run, const TrainedSizes& trained) {
  const MomentStorage storage = moment_storage(run.optim, run.master_weights);
  const int64_t elements = elements_of(trained);
  const bool masters = trained.bytes == 2 && run.master_weights == config::MasterWeights::kFp32;
  return elements * (4 * bytes_of_moment(storage, elements, trained.bytes) + (masters ? 2 * 4 - 2 : 0)) +
         scales_of_moment(storage, elements) * 4 * 4;
}

}  // namespace

Tensors state_footprint(const config::RunConfig& run, const std::vector<TrainedSizes>& trained, bool cuda) {
  Tensors states = states_of(run, kept_on_host(run, trained, false));
  if (cuda && config::row_of(run.optim).is_adamw) add_constants(run, trained, states);
  if (run.offload_optimizer) states.push_back(staging(run, kept_on_host(run, trained, true)));
  return states;
}

int64_t host_state_bytes(const config::RunConfig& run, const std::vector<TrainedSizes>& trained) {
  return bytes_of(states_of(run, kept_on_host(run, trained, true)));
}

std::vector<Tensors> update_footprint(const config::RunConfig& run, const std::vector<TrainedSizes>& trained, bool cuda,
                                      bool scales_loss) {
  if (!cuda) return {};
  std::vector<Tensors> instants = norm_of_gradients(run, trained, scales_loss);
  switch (run.optim) {
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      if (run.cuda_kernels.value_or(false) ||
          moment_storage(run.optim, run.master_weights) == MomentStorage::kAsWeights)
        break;
      for (Tensors& instant : group_updates(run, trained)) instants.push_back(std::move(instant));
      break;
    case config::Optimizer::kLion:
    case config::Optimizer::kAdafactor:
      if (!trained.empty())
        instants.push_back(change_of(*std::max_element(trained.begin(), trained.end(), is_smaller)));
      break;
    case config::Optimizer::kSgd:
      break;
  }
  return instants;
}

// The norm reads the gradient. Then a kernel goes over the parameter once: it reads the gradient, reads and writes the
// parameter and what the optimizer keeps of each number. Adafactor reads a matrix's gradient four times.
int64_t update_traffic(const config::RunConfig& run, const TrainedSizes& trained) {
  const int64_t elements = elements_of(trained), parameter = elements * 4 * trained.bytes;
  switch (run.optim) {
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      return parameter + adamw_traffic(run, trained);
    case config::Optimizer::kLion:
      return parameter + elements * 2 * 4;
    case config::Optimizer::kAdafactor:
      return parameter + elements * (trained.columns > 0 ? 3 * trained.bytes : trained.bytes + 4);
    case config::Optimizer::kSgd:
      break;
  }
  return parameter;
}

}  // namespace fathom::footprint
