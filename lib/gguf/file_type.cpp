// The table of file types.
#include "gguf/file_type.h"

#include "base/error.h"

namespace fathom::gguf {

using weights::GgufType;

const std::vector<FileType>& file_types() {
  static const std::vector<FileType> table = {
      {"f32", 0, GgufType::kF32, GgufType::kF32},     {"f16", 1, GgufType::kF16, GgufType::kF16},
      {"bf16", 32, GgufType::kBF16, GgufType::kBF16}, {"q8_0", 7, GgufType::kQ8_0, GgufType::kQ8_0},
      {"q4_0", 2, GgufType::kQ4_0, GgufType::kQ8_0},
  };
  return table;
}

const FileType& find_file_type(std::string_view name) {
  std::string known;
  for (const FileType& type : file_types()) {
    if (type.name == name) return type;
    known.append(known.empty() ? "" : ", ").append(type.name);
  }
  throw UsageError("'" + std::string(name) + "' is no type of a GGUF file that can be written",
                   "choose one of " + known);
}

const FileType& file_type_for(DType stored) { return find_file_type(stored == DType::kBF16 ? "bf16" : "f16"); }

GgufType tensor_type(const FileType& file, const std::vector<int64_t>& shape, bool is_head) {
  if (shape.size() < 2) return GgufType::kF32;
  const GgufType type = is_head ? file.head : file.matrices;
  return weights::is_quantized(type) && shape.back() % weights::kGgufBlock != 0 ? GgufType::kF16 : type;
}

}  // namespace fathom::gguf
