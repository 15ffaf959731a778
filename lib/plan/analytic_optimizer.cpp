// One row for each optimizer: lib/optim in sizes alone.
#include "plan/analytic_optimizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/bytes.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr const char* kAdamW = "AdamW keeps two moments (Loshchilov and Hutter 2017, arXiv 1711.05101)";
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
  std::set<std::string> adapted;
  if (s.lora) {
    const std::vector<std::string> modules = model::adapted_modules(s.shape, s.run.target_modules);
    adapted.insert(modules.begin(), modules.end());
  }
  for (const model::ParameterSpec& spec : model::parameter_specs(s.shape)) {
    const int64_t rows = spec.shape.at(0), columns = spec.shape.size() > 1 ? spec.shape.at(1) : 0;
    if (s.trains(spec.name)) tensors.push_back({rows, columns, s.stored_bytes});
    if (!spec.name.ends_with(".weight") || !adapted.contains(spec.name.substr(0, spec.name.rfind('.')))) continue;
    tensors.push_back({s.run.lora_r, columns, kStoredAdapterBytes});
    tensors.push_back({rows, s.run.lora_r, kStoredAdapterBytes});
  }
  return tensors;
}

}  // namespace

void account_for_states(const StepSettings& s, Account& account) {
  const auto stand = [&](const char* what, const char* source, const Product& product) {
    account.keep(account.take(Component::kOptimizerStates, what, source, product));
  };
  int64_t parameters = 0, sides = 0;
  std::map<int64_t, int64_t> of_size;  // bytes of an element -> parameters of that type
  for (const TrainedTensor& tensor : trained_tensors(s)) {
    parameters = checked_add(parameters, tensor.elements(), "trained parameters");
    of_size[tensor.bytes] += tensor.elements();
    sides = checked_add(sides, checked_add(tensor.rows, tensor.columns, "sides"), "sides");
  }
  switch (s.run.optim) {
    case config::Optimizer::kAdamW:
      for (const auto& [bytes, count] : of_size) {
        stand("moments", kAdamW, {{2, "of"}, {count, "parameters"}, {bytes, "bytes"}});
      }
      if (s.cuda) stand("step count", kAdamW, {{4, "bytes"}});
      return;
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
  const Tensor factor = s.run.max_grad_norm > 0 ? account.take("factor that clips", kNorms, {{4, "bytes"}}) : nullptr;
  if (s.run.optim != config::Optimizer::kLion && s.run.optim != config::Optimizer::kAdafactor) return;
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
