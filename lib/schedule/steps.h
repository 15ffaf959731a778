// The shapes of a run's batches, which decide its memory.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/run.h"
#include "schedule/step_order.h"

namespace fathom::schedule {

struct BatchShape {
  int64_t rows = 0;  // sequences: of preferences two each
  int64_t length = 0;
  int64_t targets = 0;                                  // tokens that count for the loss
  std::vector<int64_t> document_lengths = {};           // packed: of the documents in the one row; empty: padded rows
  int64_t source_length = 0;                            // of what an encoder reads, in as many rows; 0: there is none
  auto operator<=>(const BatchShape&) const = default;  // NOLINT(modernize-use-nullptr): of what the compiler writes
};
using StepShape = std::vector<BatchShape>;  // one entry for each micro-batch

// What decides, beside its sizes, what kernels take for a batch.
struct KernelTraits {
  int64_t window = 0;       // of attention, 0 for none: sequences within it take other kernels than those beyond
  int64_t score_heads = 0;  // whose scores are made a few queries at a time; 0: a fused kernel makes them
};
KernelTraits kernel_traits(const arch::Architecture& architecture);

// Of a run, what the ring of batches has room for (train/batch_ring.h).
struct Extent {
  int64_t tokens = 0;                   // rows × length of the largest batch
  int64_t source_tokens = 0;            // likewise of sources
  void widen(const BatchShape& batch);  // throws UsageError for a batch of more tokens than can be planned
  bool operator==(const Extent&) const = default;
};

// Rows of this length without padding, where every token that has a next one counts; packed: as documents of one row.
BatchShape whole_batch(int64_t rows, int64_t length, bool packed = false);
// Throws UsageError for texts of so many tokens, or rows to which these are padded, where the model has not learned as
// many positions. learned: Architecture::longest_text.
void refuse_longer_texts(std::optional<int64_t> learned, const config::RunConfig& config, int64_t longest);
// Of a run without data: rows of max_length tokens; for an encoder and decoder of sources and targets as long as the
// run takes them. Throws UsageError where the model has no positions for them.
BatchShape largest_batch(const arch::Run& run);
// Likewise those of the reference's pass; none where the objective asks for no reference.
std::vector<BatchShape> largest_reference(const arch::Run& run);
// As many of them as a run's steps accumulate; of more than three the others between the first and the last are as one.
StepShape accumulated(const config::RunConfig& config, const BatchShape& batch);
// So many rows as long as the longest of these, each token of which counts that can.
BatchShape batch_of_longest(int64_t rows, const std::vector<StepShape>& steps, bool packed);
// Tokens of the longest sequence in which tokens see each other: a row, its source, or a document of a packed one.
int64_t longest_sequence(const BatchShape& batch);

// The shapes of these batches of a step or an evaluation, of which the process of this rank has its share, and maybe
// none.
StepShape shapes_of(const config::RunConfig& config, const data::Dataset& dataset,
                    std::vector<std::vector<int64_t>> batches, int64_t rank = 0);
// The shapes of every step of the run, in order, from the lengths of the examples alone.
std::vector<StepShape> step_shapes(const config::RunConfig& config, const data::Dataset& dataset);
// The shapes of an evaluation pass over the dataset, in order: the share of the first process.
std::vector<BatchShape> evaluation_shapes(const config::RunConfig& config, const data::Dataset& dataset);

// Of all that are given, the steps that make a run's maxima of live bytes, made up of shapes that no other exceeds
// (schedule/frontier.h): one micro-batch each, or a first and a later one.
std::vector<StepShape> maximal_shapes(const std::vector<StepShape>& steps, const KernelTraits& traits = {});

}  // namespace fathom::schedule
