// A trained model or adapter as a folder of its own that transformers or PEFT loads, or as a file for llama.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fathom::checkpoint {

struct ExportRequest {
  std::filesystem::path source;         // a run's folder, a checkpoint's, or any model or adapter folder
  std::filesystem::path out;            // must not exist, or be an empty folder
  bool merge = false;                   // an adapter into its base
  std::filesystem::path base;           // in place of the one that the adapter names; empty: that one
  bool gguf = false;                    // a GGUF file instead of a folder,
  std::string gguf_type = "auto";       //   as GgufRequest has it
  int64_t shard_bytes = 5'000'000'000;  // weights beyond it are divided, with an index, as transformers does
};

// Writes the folder or file, which appears whole or not at all, and returns what it holds, for people. A run without a
// final model gives its newest checkpoint. Files of a checkpoint are verified first. Throws Error for a phantom's
// folder, for what is not there, for an `out` within what is exported, and if the disk has no room.
std::string export_model(const ExportRequest& request);

}  // namespace fathom::checkpoint
