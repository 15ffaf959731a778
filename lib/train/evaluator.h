// One evaluation, and all of a training step but the optimizer: the code that runs on the CPU, on CUDA and on both
// phantoms alike.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/run.h"
#include "data/batch.h"
#include "dist/group.h"
#include "ledger/cuda.h"
#include "ledger/ledger.h"
#include "model/decoder.h"
#include "ops/preference_loss.h"
#include "report/metrics.h"
#include "train/batch_ring.h"
#include "train/greedy.h"

namespace fathom::train {

// Where a trainer's tensors live, who counts them, and with whom it trains.
struct Placement {
  at::Device device = at::kCPU;
  ledger::Ledger* ledger = nullptr;    // of that device; never null
  ledger::CudaDevice* cuda = nullptr;  // on CUDA, real or phantom: its allocator's statistics and workspaces
  dist::Group* group = nullptr;        // null: alone

  int64_t rank() const { return group == nullptr ? 0 : group->rank(); }
  int64_t processes() const { return group == nullptr ? 1 : group->size(); }
  bool is_first() const { return rank() == 0; }
};

// Claims what libraries have taken by now. Before each pass: of very many the ledger labels some unasked.
void claim_workspaces(const Placement& placement);
// Labels what happened since the last call.
memory::Memory label(const Placement& placement);

struct Evaluation {
  double loss = 0;  // mean over target tokens, or preferences, not over batches
  int64_t target_count = 0;
  std::vector<double> numbers;      // of preferences: means of Evaluator::number_names
  std::vector<float> row_logprobs;  // likewise, of each row, batch after batch
  bool complete = true;             // false: stopped early, the loss is of the batches so far
  memory::Memory memory;
};

struct Answers {
  std::vector<std::vector<int32_t>> ids;  // of each row, batch after batch
  bool complete = true;                   // false: stopped early
  memory::Memory memory;
};

// How a run wants its model built.
model::ModelOptions model_options(const arch::Run& run, const Placement& placement);

// In which autocast multiplies, nullopt where it is off.
std::optional<at::ScalarType> autocast_type(const arch::Precision& precision);

using BatchAt = std::function<data::Batch(int64_t index)>;
using PromptsAt = std::function<Prompts(int64_t index)>;

// A model with its ring of batches: what evaluation takes, and all of training but the optimizer.
class Evaluator {
 public:
  // Makes the model (uninitialised) and the batch ring on the device. options: model_options, or what the caller made
  // of them.
  Evaluator(const arch::Run& run, const model::ModelOptions& options, const BatchCapacity& capacity,
            const Placement& placement);

  model::Decoder& model() { return model_; }
  // Takes batch_at(0) to batch_at(count - 1), each made when its turn comes. stop: asked after each batch that another
  // follows; once it says true the evaluation ends there, incomplete.
  // what: for who waits.
  Evaluation evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop = nullptr,
                      const char* what = "evaluating");
  Evaluation evaluate(std::span<const data::Batch> batches);
  // Likewise, a part of an evaluation: what the model answers to prompts_at(0) to prompts_at(count - 1).
  Answers answer(int64_t count, const PromptsAt& prompts_at, const std::function<bool()>& stop = nullptr);
  // Copies the batch into the ring.
  DeviceBatch put(const data::Batch& batch) { return ring_.put(batch); }
  // What a mean loss of the batch is a mean over: target tokens, or preferences.
  int64_t counted(const data::Batch& batch) const;
  // Of what the objective reports beside its loss; none: of nothing.
  std::span<const std::string_view> number_names() const;
  // These values of them under their names.
  report::Scalars named(const std::vector<double>& values, std::string_view prefix = "") const;
  report::Scalars named(const Evaluation& evaluation) const { return named(evaluation.numbers, report::kOfEvaluation); }
  // The sums of these over the batch of the last `loss`, FP32; undefined where there are none. Asked once.
  at::Tensor take_numbers() { return std::move(numbers_K_); }
  // The sum of the batch's losses divided by `denominator`, an FP32 scalar on the device; never holds more logits than
  // a chunk of loss_chunk_size rows. Its gradients are multiplied by gradient_scale. router_share: as Decoder::loss.
  at::Tensor loss(const DeviceBatch& batch, double denominator, double gradient_scale = 1, double router_share = 1);

 private:
  void add_rows(Evaluation& result, std::vector<double>& sums);

  Placement placement_;
  std::optional<at::ScalarType> autocast_;
  int64_t loss_chunk_;
  int64_t rows_of_example_;
  std::optional<ops::PreferenceOptions> preferences_;  // unset: cross-entropy
  at::Tensor numbers_K_, row_logprobs_B_;              // of the last batch; the latter of evaluations alone
  model::Decoder model_;
  BatchRing ring_;
};

}  // namespace fathom::train
