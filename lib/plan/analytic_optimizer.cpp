// One row for each optimizer: lib/optim in sizes alone.
#include "plan/analytic_optimizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "arch/parameter_table.h"
#include "base/bytes.h"
#include "config/checks.h"
#include "optim/moment_storage.h"
#include "optim/update_groups.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr const char* kAdamW = "AdamW keeps two moments (Loshchilov and Hutter 2017, arXiv 1711.05101)";
constexpr const char* k8bit = "moments in 8 bits, by blocks of 256 (Dettmers et al. 2022, arXiv 2110.02861)";
constexpr const char* kMasters = "FP32 masters of BF16 weights (Micikevicius et al. 2017, arXiv 1710.03740)";
constexpr const char* kTables = "8-bit codes' values and the borders between them; lib/optim/mixed_adamw.h";
constexpr const char* kGroup = "a group of parameters in FP32, by ATen's operators; lib/optim/mixed_adamw.h";
constexpr const char* kLion = "Lion keeps one momentum, in FP32 (Chen et al. 2023, arXiv 2302.06675)";
constexpr const char* kAdafactor =
    "Adafactor keeps one mean for each row and column, in FP32 (Shazeer and Stern 2018, arXiv 1804.04235)";
constexpr const char* kNorms = "the norm of all gradients, for clipping (Pascanu et al. 2013, arXiv 1211.5063)";
constexpr const char* kUpdate = "one parameter's update in FP32, by ATen's operators; lib/optim";
constexpr int64_t kChunk = 65536;  // elements for which LibTorch's multi-tensor kernels give one number

struct TrainedTensor {
  int64_t rows, columns;  // columns 0: a vector of `rows`
  int64_t bytes;          // of an element
  int64_t elements() const { return columns == 0 ? rows : checked_multiply(rows, columns, "elements of a matrix"); }
};

std::vector<TrainedTensor> trained_tensors(const StepSettings& s) {
  std::vector<TrainedTensor> tensors;
  for (const arch::ParameterRow& row : s.parameters.rows) {
    if (!row.trained) continue;
    const std::vector<int64_t>& shape = row.spec.shape;
    tensors.push_back({shape.at(0), shape.size() > 1 ? shape.at(1) : 0, size_of(row.dtype)});
  }
  return tensors;
}

// What AdamW keeps, whatever it is stored in.
struct AdamWStates {
  std::map<int64_t, int64_t> of_size;  // bytes of one number of a moment -> parameters whose moments have it
  int64_t scales = 0;                  // of one moment
  int64_t masters = 0;
};

AdamWStates adamw_states(const StepSettings& s, const std::vector<TrainedTensor>& tensors) {
  const optim::MomentStorage storage = optim::moment_storage(s.run.optim, s.run.master_weights);
  AdamWStates states;
  for (const TrainedTensor& tensor : tensors) {
    const int64_t elements = tensor.elements();
    states.of_size[optim::bytes_of_moment(storage, elements, tensor.bytes)] += elements;
    states.scales += optim::scales_of_moment(storage, elements);
    if (s.run.master_weights == config::MasterWeights::kFp32 && tensor.bytes < 4) states.masters += elements;
  }
  return states;
}

void account_for_adamw(const StepSettings& s, const std::vector<TrainedTensor>& tensors, Account& account) {
  const auto stand = [&](const char* what, const char* source, const Product& product) {
    account.keep(account.take(Component::kOptimizerStates, what, source, product));
  };
  const AdamWStates states = adamw_states(s, tensors);
  stand("masters", kMasters, {{states.masters, "parameters"}, {4, "bytes"}});
  for (const auto& [bytes, count] : states.of_size) {
    stand("moments", bytes == 1 ? k8bit : kAdamW, {{2, "of"}, {count, "parameters"}, {bytes, "bytes"}});
  }
  stand("scales of moments", k8bit, {{2, "of"}, {states.scales, "scales"}, {4, "bytes"}});
  if (!s.cuda) return;
  stand("step count", kAdamW, {{4, "bytes"}});
  if (states.scales > 0) stand("tables of codes", kTables, {{int64_t{2} * (256 + 255), "numbers"}, {4, "bytes"}});
}

// MixedAdamW::Group::update. narrow: BF16 weights; quantized: moments in codes.
void account_for_group(const StepSettings& s, int64_t elements, bool narrow, bool quantized, Account& account) {
  using config::MasterWeights;
  const auto take = [&](const char* what, int64_t bytes) {
    return account.take(what, kGroup, {{elements, "elements"}, {bytes, "bytes"}});
  };
  const auto take_scales = [&] {
    return account.take("scales of a group", kGroup, {{elements / quant::kDynamicBlock, "blocks"}, {4, "bytes"}});
  };
  const bool by_chance = narrow && s.run.master_weights == MasterWeights::kStochastic;
  const bool narrow_moments = optim::moment_storage(s.run.optim, s.run.master_weights) == optim::MomentStorage::kBf16;
  const auto widened = [&](const char* what) -> Tensor {
    if (narrow_moments) return take(what, 4);
    if (!quantized) return nullptr;
    Tensor indices = take("codes as indices", 4), numbers = take(what, 4);
    indices.reset();
    take_scales();
    return numbers;
  };
  const auto round_by_chance = [&] {
    const Tensor draws = take("draws", 4);
    take("which are not numbers", 1);
  };
  const Tensor first = widened("first moments in FP32"), second = widened("second moments in FP32");
  const bool copies = narrow && s.run.master_weights != MasterWeights::kFp32;
  const Tensor weights = copies ? take("weights in FP32", 4) : nullptr;
  if (narrow) take("gradients in FP32", 4);
  Tensor bits;
  if (by_chance || narrow_moments) {
    bits = take("random bits", 4);
    take("random bits, shifted", 4);
  }
  if (by_chance) round_by_chance();
  if (narrow_moments) round_by_chance();
  if (!quantized) return;
  const Tensor scales = take_scales();
  take("codes", 4);
}

// All groups of a kind take what its largest does.
void account_for_groups(const StepSettings& s, const std::vector<TrainedTensor>& tensors, Account& account) {
  const optim::MomentStorage storage = optim::moment_storage(s.run.optim, s.run.master_weights);
  std::vector<optim::UpdatedParameter> parameters;
  parameters.reserve(tensors.size());
  for (const TrainedTensor& tensor : tensors) {
    parameters.push_back({tensor.elements(), tensor.bytes < 4, optim::is_quantized(storage, tensor.elements())});
  }
  std::map<std::pair<bool, bool>, int64_t> largest;
  for (const optim::UpdateGroup& group : optim::update_groups(parameters)) {
    const optim::UpdatedParameter& any = parameters[group.front().parameter];
    int64_t& elements = largest[{any.narrow, any.quantized}];
    elements = std::max(elements, optim::elements_of(group));
  }
  for (const auto& [kind, elements] : largest) account_for_group(s, elements, kind.first, kind.second, account);
}

}  // namespace

void account_for_states(const StepSettings& s, Account& account) {
  const auto stand = [&](const char* what, const char* source, const Product& product) {
    account.keep(account.take(Component::kOptimizerStates, what, source, product));
  };
  int64_t parameters = 0, sides = 0;
  const std::vector<TrainedTensor> tensors = trained_tensors(s);
  for (const TrainedTensor& tensor : tensors) {
    parameters = checked_add(parameters, tensor.elements(), "trained parameters");
    sides = checked_add(sides, checked_add(tensor.rows, tensor.columns, "sides"), "sides");
  }
  switch (s.run.optim) {
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      return account_for_adamw(s, tensors, account);
    case config::Optimizer::kLion:
      return stand("momentum", kLion, {{parameters, "parameters"}, {4, "bytes"}});
    case config::Optimizer::kAdafactor:
      return stand("means of squared gradients", kAdafactor, {{sides, "rows and columns"}, {4, "bytes"}});
    case config::Optimizer::kSgd:
      return;
  }
}

void account_for_update(const StepSettings& s, Account& account) {
  if (!s.cuda) return;  // our kernels take nothing
  const std::vector<TrainedTensor> tensors = trained_tensors(s);
  {
    std::vector<Tensor> norms;  // of the gradients of each type
    for (const int64_t bytes : std::set<int64_t>{s.stored_bytes, kStoredAdapterBytes}) {
      int64_t chunks = 1, count = 0;
      for (const TrainedTensor& tensor : tensors) {
        if (tensor.bytes != bytes) continue;
        chunks = std::max(chunks, (tensor.elements() + kChunk - 1) / kChunk);
        count += 1;
      }
      const Tensor parts =
          account.take("norms of chunks", kNorms, {{count, "tensors"}, {chunks, "chunks"}, {4, "bytes"}});
      norms.push_back(account.take("norms of gradients", kNorms, {{count, "tensors"}, {4, "bytes"}}));
    }
  }
  const Tensor norm = account.take("norm of all gradients", kNorms, {{4, "bytes"}});
  const bool factors = s.run.max_grad_norm > 0 || s.scales_loss;
  const Tensor factor = factors ? account.take("factor of gradients", kNorms, {{4, "bytes"}}) : nullptr;
  if (config::is_adamw(s.run.optim)) {
    if (optim::moment_storage(s.run.optim, s.run.master_weights) == optim::MomentStorage::kAsWeights) return;
    const Tensor divisor = factors ? account.take("its reciprocal", kNorms, {{4, "bytes"}}) : nullptr;
    return account_for_groups(s, tensors, account);
  }
  if (s.run.optim == config::Optimizer::kSgd) return;
  for (const TrainedTensor& tensor : tensors) {
    const Product wide = {{tensor.rows, ""}, {std::max<int64_t>(1, tensor.columns), ""}, {4, "bytes"}};
    const Tensor gradient = tensor.bytes < 4 ? account.take("gradient in FP32", kUpdate, wide) : nullptr;
    const bool factored = s.run.optim == config::Optimizer::kAdafactor && tensor.columns > 0;
    const Tensor sides = factored ? account.take("factors of rows and columns, and their mean", kUpdate,
                                                 {{tensor.rows + tensor.columns + 1, "factors"}, {4, "bytes"}})
                                  : nullptr;
    account.take("change of a parameter", kUpdate, wide);
  }
}

}  // namespace fathom::plan
