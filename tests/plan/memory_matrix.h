// The memory matrix: several hundred small runs that between them combine every setting that memory depends on, for
// the tests and programs that hold one account of memory against another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "schedule/steps.h"

namespace fathom::plan::testing {

// One run, completely described: a randomly initialised model and the shapes of what it is fed.
struct MatrixRun {
  std::string name;          // letters, digits and underscores; the first three digits are its place in the matrix
  config::RunConfig config;  // num_threads is 1 or 2
  arch::Architecture architecture;
  std::vector<schedule::StepShape> steps;         // in order; one reaches the most rows (or documents) and length
  std::vector<schedule::BatchShape> evaluations;  // of one pass, in order; empty: none
  std::vector<schedule::BatchShape> reference;    // likewise, of the reference's pass before the first step
};

// At least 200 runs, of one seed always the same ones: a covering design drawn from it. Any two levels of two axes
// (method and adapters, precision, checkpointing, attention, family, heads, tied embeddings, layers, rows, length,
// accumulation, evaluation, threads, clipping, optimizer, chunks of the loss, packing, sliding window, masters, format
// of a frozen base, quantization-aware training, modules trained beside adapters) that can be in effect together are so
// in at least one run; widths are drawn at random.
inline constexpr uint64_t kMatrixSeed = 20260501;
std::vector<MatrixRun> memory_matrix(uint64_t seed = kMatrixSeed);

// `count` different runs of the matrix, drawn from `seed`, in the order of the matrix; of its first `among` alone.
std::vector<MatrixRun> sample_of_matrix(uint64_t seed, size_t count, size_t among = SIZE_MAX);

// The run with as many preferences as it had samples, each of two rows, and a reference's pass over the shapes of its
// steps, without what preferences do not have: dropout, routers' share of the loss. Unset where rows are
// packed and for an encoder and decoder.
std::optional<MatrixRun> of_preferences(MatrixRun run);

// The axes, for whoever checks or describes the design: names of the levels, and the level that each run has.
struct MatrixAxis {
  std::string name;
  std::vector<std::string> levels;
};
const std::vector<MatrixAxis>& matrix_axes();
// [run][axis]; those in effect: 0 where a level would mean nothing
std::vector<std::vector<size_t>> matrix_levels(uint64_t seed = kMatrixSeed);
using MatrixPair = std::array<size_t, 4>;      // axis, level, axis, level
const std::set<MatrixPair>& possible_pairs();  // that can be in effect together

}  // namespace fathom::plan::testing
