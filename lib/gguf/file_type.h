// What a GGUF file is made in: llama.cpp's file types, and the type of each of their tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "weights/gguf_writer.h"

namespace fathom::gguf {

struct FileType {
  std::string_view name;  // "q8_0"
  uint32_t number;        // of llama.cpp's enum llama_ftype, what general.file_type says
  weights::GgufType matrices;
  weights::GgufType head;  // of the head, and of an embedding that is the head, too
};

// f32, f16, bf16, q8_0, q4_0: in the order of their names' listing for people.
const std::vector<FileType>& file_types();
// By name. Throws UsageError for another.
const FileType& find_file_type(std::string_view name);
// What `auto` of llama.cpp's converter chooses: bf16 for weights that are stored so, else f16.
const FileType& file_type_for(DType stored);

// As llama.cpp's converter has it: vectors and norms in FP32; rows that are no whole blocks of a quantized type in
// FP16. The head of q4_0 is in Q8_0, which llama.cpp makes of it where its own choice, Q6_K, does not fit.
weights::GgufType tensor_type(const FileType& file, const std::vector<int64_t>& shape, bool is_head);

}  // namespace fathom::gguf
