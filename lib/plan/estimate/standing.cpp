// Sums over the table of parameters.
#include "plan/estimate/standing.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "arch/rotary_frequencies.h"
#include "base/bytes.h"
#include "config/shards.h"
#include "footprint/offload.h"
#include "footprint/quantized_part_size.h"
#include "plan/estimate/shares.h"
#include "plan/estimate/workload.h"
#include "schedule/inputs.h"
#include "schedule/recordings.h"

namespace fathom::plan {
namespace {

using footprint::Tensors;
using memory::Component;

constexpr int64_t kRingSlots = 2;  // train::BatchRing
constexpr const char* kWeights = "one number for each parameter, in the type of dtype";
constexpr const char* kCodes = "a code for each number, a scale for each row or block of them; lib/quant/layout.h";
constexpr const char* kParts = "a base is quantized a part at a time; lib/footprint/quantized_part_size.h";
constexpr const char* kRing = "ids and targets of the batch in work and of the next; lib/train/batch_ring.h";
constexpr const char* kWorkspace = "at::cuda::getChosenWorkspaceSize of LibTorch 2.11, for each thread that multiplies";
constexpr const char* kWorkspaceLt = "at::cuda::getCUDABlasLtWorkspaceSize of LibTorch 2.11, for biases";

// ops::RotaryTable has a power of two of positions, and at least 64: cosines and sines, of queries apart where these
// are scaled.
footprint::Bytes rotary_table(const arch::Rotary& rotary, int64_t length) {
  const auto positions =
      length == 0 ? 0 : std::max<int64_t>(64, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
  return {"rotary tables",
          "cosines and sines for each position (Su et al. 2021, arXiv 2104.09864)",
          {{rotary.scales_queries() ? 4 : 2, "of"}, {positions, "positions"}, {rotary.width / 2, ""}, {4, "bytes"}},
          Component::kWeights};
}

// Of every way of turning heads; of LongRoPE one more where a sequence reaches beyond its original positions.
void add_rotary_tables(const arch::Architecture& architecture, int64_t longest, Tensors& moment) {
  for (const arch::Rotary& rotary : architecture.rotaries()) {
    const int64_t original = arch::original_positions(rotary);
    if (original > 0 && longest > original) moment.push_back(rotary_table(rotary, original));
    moment.push_back(rotary_table(rotary, longest));
  }
}

// Where several processes train, gradients are there from the start, and what others send of them beside it.
void add_gradients(const config::RunConfig& run, const arch::ParameterTable& parameters, Tensors& moment) {
  constexpr const char* kBuckets = "gradients lie in flat buckets, whose pieces ranks add up; lib/dist";
  int64_t bytes = 0;
  for (const arch::ParameterRow& row : parameters.rows) {
    if (row.trained) bytes = checked_add(bytes, row.value_bytes(), "gradients");
  }
  const int64_t of_others = bytes / run.num_processes * (run.num_processes - 1);
  moment.push_back({"gradients", kBuckets, {{bytes, "bytes"}}, Component::kGradients});
  moment.push_back({"gradients of other processes", kBuckets, {{of_others, "bytes"}}, Component::kFunctionality});
}

// The model, as this process holds it before a step: parameters, codes, adapters, rotary tables.
Tensors model_tensors(const arch::Run& run, const Workload& workload) {
  int64_t plain = 0, wide = 0, codes = 0, scales = 0;  // of the base: numbers as dtype says, in FP32 beside it; bytes
  for (const arch::ParameterRow& row : run.parameters.rows) {
    if (!row.of_base()) continue;
    if (!row.codes) {
      int64_t& numbers = row.dtype == run.precision.stored ? plain : wide;
      numbers = checked_add(numbers, row.spec.elements(), "parameters of the base");
      continue;
    }
    const quant::Layout layout = quant::layout_of(*row.codes, row.spec.shape[0], row.spec.shape[1]);
    codes = checked_add(codes, layout.code_bytes, "codes of the base");
    scales = checked_add(scales, layout.scale_bytes, "scales of the base");
  }
  const OffloadedLayerBytes offloaded = offloaded_layers(run);
  const int64_t stored = size_of(run.precision.stored);
  const int64_t step_sizes = run.parameters.count_of(arch::Role::kStepSizes);
  constexpr auto kOfModel = Component::kWeights;
  Tensors moment = {
      {"weights", kWeights, {{plain - offloaded.numbers, "parameters"}, {stored, "bytes"}}, kOfModel},
      {"weights that stay FP32", kWeights, {{wide - offloaded.wide, "parameters"}, {4, "bytes"}}, kOfModel},
      {"quantized weights", kCodes, {{codes - offloaded.codes, "bytes"}}, kOfModel},
      {"scales of quantized weights", kCodes, {{scales - offloaded.scales, "bytes"}}, kOfModel},
      {"adapters", kWeights, {{run.parameters.adapter_count(), "parameters"}, {4, "bytes"}}, kOfModel},
      {"learned step sizes",
       "one for each row or group (Esser et al. 2019, arXiv 1902.08153)",
       {{step_sizes, "step sizes"}, {4, "bytes"}},
       kOfModel}};
  moment.push_back(filling_of_blocks(run));
  divide_among_processes(run.config, moment);
  add_rotary_tables(run.architecture, longest_sequence(workload), moment);
  return moment;
}

// What stands beside model and optimizer so that steps can run.
class Functionality {
 public:
  Functionality(const arch::Run& run, const Workload& workload, Tensors& moment)
      : run_(run), workload_(workload), moment_(moment) {}

  void add_of_every_device() const {
    const config::RunConfig& config = run_.config;
    if (run_.architecture.relative) {
      const int64_t distances = std::max<int64_t>(0, 2 * longest_sequence(workload_) - 1);
      add("buckets of relative positions", "a bucket for each distance, of both stacks; lib/model/relative_bias.h",
          {{2, "of"}, {distances, "distances"}, {8, "bytes"}});
    }
    if (const OffloadedLayerBytes offloaded = offloaded_layers(run_); offloaded.bytes > 0) {
      add("layers on their way", "a layer computes, the next one comes; lib/model/offloaded_layers.h",
          {{footprint::kLayerSlots, "slots"}, {offloaded.largest, "bytes"}});
    }
    if (const auto type = run_.adapter_casts) {
      int64_t numbers = 0;
      for (const arch::ParameterRow& row : run_.parameters.rows) {
        numbers += arch::is_read_cast(row) ? row.spec.elements() : 0;
      }
      add("autocast's copies of adapters", footprint::kAutocastSource,
          {{numbers, "parameters"}, {size_of(*type), "bytes"}});
    }
    const int64_t tokens = workload_.capacity_tokens;
    ring("ring of batches, ids and targets", tokens, 16);
    if (config.loss_chunk_size > 0) ring("ring of batches, rows that count", tokens, 8);
    if (run_.architecture.router_aux_loss_coef > 0 && !config.packing) ring("ring of batches, padding", tokens, 4);
    if (config.packing) ring("ring of batches, positions", tokens, 4);
    if (config::row_of(config.objective).learns_preferences()) {
      const int64_t examples = std::max(config.per_device_train_batch_size, config.per_device_eval_batch_size);
      ring("ring of batches, numbers of sequences", config::rows_of(config, examples), 8);
    }
    if (run_.architecture.encoder) {
      ring("ring of batches, sources and their padding", workload_.capacity_source_tokens, 9);
    }
  }

  void add_of_gpus() const {
    const int64_t tokens = workload_.capacity_tokens, width = run_.architecture.hidden_size,
                  stored = size_of(run_.precision.stored);
    if (run_.config.cuda_graphs) {
      add("input of recorded layers, and the gradient of what they make",
          "lib/ops/recorded_segments.h; of each shape, here of the largest",
          {{2, "of"}, {tokens, "tokens"}, {width, ""}, {stored, "bytes"}});
      const std::vector<arch::ParameterRow>& rows = run_.parameters.rows;
      const bool trains_embedding = std::any_of(rows.begin(), rows.end(), [](const arch::ParameterRow& row) {
        return row.spec.role == arch::Role::kEmbedding && row.trained;
      });
      add("recorded layers of smaller shapes", "likewise; what they read and make, with the gradients",
          {{trains_embedding ? 4 : 3, "of"},
           {schedule::recorded_beside_the_largest(workload_.schedule), "tokens"},
           {width, ""},
           {stored, "bytes"}});
    }
    if (run_.config.packing) ring("ring of batches, borders of documents", tokens + 1, 4);
    const std::optional<quant::Scheme>& scheme = run_.settings.base_scheme;
    if (!scheme || !quant::is_in_4_bits(*scheme)) return;
    int64_t numbers = int64_t{2} * 256;
    if (quant::is_nf4(*scheme)) numbers += 15;
    if (quant::has_double_scales(*scheme)) numbers += 256 + 255;
    if (quant::is_mxfp4(*scheme)) numbers += 256;
    add("tables of codes", "values of 4-bit codes and the borders between them; lib/ops/quantized/quantized_matrix.h",
        {{numbers, "numbers"}, {4, "bytes"}});
  }

 private:
  void add(const char* what, const char* source, Product product) const {
    moment_.push_back({what, source, std::move(product), Component::kFunctionality});
  }
  void ring(const char* what, int64_t count, int64_t bytes) const {
    add(what, kRing, {{kRingSlots, "slots"}, {count, "tokens"}, {bytes, "bytes"}});
  }

  const arch::Run& run_;
  const Workload& workload_;
  Tensors& moment_;
};

void add_workspaces(const arch::Run& run, const Target& target, Tensors& moment) {
  const int64_t workspace = target.compute_capability.starts_with("9.") ? 33554432 : 8519680;
  moment.push_back({"cuBLAS workspaces, forward and backward thread",
                    kWorkspace,
                    {{2, "of"}, {workspace, "bytes"}},
                    Component::kKernels});
  const std::vector<arch::LayerSpec>& layers = run.architecture.layers;
  if (std::none_of(layers.begin(), layers.end(), [](const arch::LayerSpec& layer) { return layer.has_bias(); })) return;
  const int64_t threads = run.config.gradient_checkpointing ? 2 : 1;
  moment.push_back({"cuBLASLt workspaces", kWorkspaceLt, {{threads, "of"}, {1048576, "bytes"}}, Component::kKernels});
}

}  // namespace

std::vector<footprint::TrainedSizes> trained_sizes(const arch::ParameterTable& parameters) {
  std::vector<footprint::TrainedSizes> trained;
  for (const arch::ParameterRow& row : parameters.rows) {
    if (!row.trained) continue;
    const std::vector<int64_t>& shape = row.spec.shape;
    trained.push_back({shape.at(0), shape.size() > 1 ? shape.at(1) : 0, size_of(row.dtype)});
  }
  return trained;
}

Tensors standing(const arch::Run& run, const Target& target, const Workload& workload) {
  const config::RunConfig& config = run.config;
  const bool cuda = target.device == config::Device::kCuda;
  Tensors moment = model_tensors(run, workload);
  Tensors states = footprint::state_footprint(config, trained_sizes(run.parameters), cuda);
  divide_among_processes(config, states);
  std::move(states.begin(), states.end(), std::back_inserter(moment));
  if (config.num_processes > 1 && !config::is_shared(config)) add_gradients(config, run.parameters, moment);
  const Functionality functionality(run, workload, moment);
  functionality.add_of_every_device();
  if (!cuda) return moment;
  functionality.add_of_gpus();
  add_workspaces(run, target, moment);
  return moment;
}

std::vector<Tensors> loading(const arch::Run& run, const Target& target) {
  const bool cuda = target.device == config::Device::kCuda;
  int64_t part = 0, scales = 0, rounded = 0;  // the largest matrix's
  for (const arch::ParameterRow& row : run.parameters.rows) {
    if (row.spec.role == arch::Role::kProjection)
      rounded = std::max(rounded, std::min(footprint::kDequantizedPart, row.spec.elements()));
    if (!row.codes) continue;
    const int64_t rows = row.spec.shape[0], columns = row.spec.shape[1];
    part = std::max(part, footprint::quantized_part_rows(rows, columns, cuda) * columns);
    scales = std::max(scales, quant::layout_of(*row.codes, rows, columns).scales);
  }
  if (run.settings.fake_scheme) {
    const int64_t stored = size_of(run.precision.stored);
    return {{{"magnitudes of a part of a matrix", kParts, {{rounded, "numbers"}, {stored, "bytes"}}}}};
  }
  const std::optional<quant::Scheme>& scheme = run.settings.base_scheme;
  if (!scheme || run.architecture.quantized) return {};  // what a folder stores in codes is copied
  Tensors moment = {{"part of a matrix in FP32", kParts, {{part, "numbers"}, {4, "bytes"}}}};
  if (quant::has_double_scales(*scheme)) {
    moment.push_back({"scales, before their own quantization", kParts, {{scales, "scales"}, {4, "bytes"}}});
  }
  if (cuda) moment.push_back({"its magnitudes or codes", kParts, {{part, "numbers"}, {4, "bytes"}}});
  if (cuda && quant::is_in_4_bits(*scheme)) {
    moment.push_back({"its codes, packed", kParts, {{(part + 1) / 2, "bytes"}, {4, "bytes"}}});
  }
  return {std::move(moment)};
}

}  // namespace fathom::plan
