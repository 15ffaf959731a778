// The folder of a random run: its model, data, tokenizer and config as files.
#pragma once

#include <filesystem>
#include <string>

#include "tests/random/draw.h"

namespace fathom::random {

// Writes model/, train.jsonl (and the same in two parts), validation.jsonl and run.yaml into an existing folder. What
// another run makes (an adapter, a quantized folder) is not written.
void write_files(const RandomRun& run, const std::filesystem::path& folder);

// The config as YAML, a key a line.
std::string to_yaml(const RandomRun& run);

}  // namespace fathom::random
