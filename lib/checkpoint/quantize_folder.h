// A model folder in another format: projections quantized, or every tensor in another floating type; and how far the
// numbers moved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/matrix_error.h"

namespace fathom::checkpoint {

struct QuantizeRequest {
  std::filesystem::path source;  // a model folder, or a name in the hub's cache
  std::filesystem::path out;     // must not exist, or be empty
  std::string format;            // a name of quant/format_names.h
  int64_t shard_bytes = 5'000'000'000;
  std::function<void(int64_t read_bytes, int64_t all_bytes)> progress;  // after each weight; may be empty
};

struct QuantizeReport {
  std::string format;                         // "INT4, groups of 128"
  int64_t bytes_before = 0, bytes_after = 0;  // of all tensors
  int64_t quantized_values = 0;               // numbers that became codes,
  int64_t quantized_bytes = 0;                //   what they take with their scales,
  int64_t other_bytes = 0;                    //   and all that stayed
  std::vector<MatrixError> matrices;          // of projections, in the order of the forward pass
};

// Writes the folder, whole or not at all, a tensor at a time: no more than one is in memory, beside the mapped files.
// Embedding, head, norms and biases stay as they are stored where projections are quantized. A folder that is quantized
// is read back where the format is a floating type. Throws Error for NaN or infinity among the weights, for numbers
// beyond a floating type, for what load_base refuses, and if the disk has no room.
QuantizeReport quantize_folder(const QuantizeRequest& request);

}  // namespace fathom::checkpoint
