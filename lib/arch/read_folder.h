// What the decoder of a model's folder is, and which tensors of the folder are not its.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "weights/folder.h"

namespace fathom::arch {

// parse_architecture of its config.json, and what the names of its tensors say besides: how a text part is called
// there (TextPart), and that a head is a matrix of its own, which it is where it differs from the embedding, whatever
// tie_word_embeddings says, as in transformers.
Architecture read_architecture(const weights::ModelFolder& folder);

// Beside a text part: names of the tensors that are left alone, and their bytes.
struct OtherTensors {
  std::vector<std::string> names;
  int64_t bytes = 0;
};
OtherTensors other_tensors(const Architecture& architecture, const weights::ModelFolder& folder);

}  // namespace fathom::arch
