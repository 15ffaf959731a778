// A trained model or adapter as one GGUF file, which llama.cpp reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "weights/folder.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

struct GgufRequest {
  std::filesystem::path out;  // must not exist
  std::string type;           // a name of gguf/file_type.h; "auto": by what is stored, of an adapter f32
  std::string name;           // general.name: what llama.cpp shows the model as
};

// A whole model. sources: its tensors, as merge.h has them. tokenizer: a folder that may have one. Writes a tensor at a
// time: no more than one is in memory. Returns what the file holds, for people. Throws Error for what llama.cpp does
// not have, for a quantized model, for tensors that are not the architecture's, for numbers that are not finite in the
// file's type, and if the disk has no room.
std::string write_gguf_model(const GgufRequest& request, const std::vector<weights::TensorSource>& sources,
                             const weights::ModelFolder& model, const std::filesystem::path& tokenizer);

// An adapter on its own, as llama.cpp's convert_lora_to_gguf.py has it. settings: of its adapter_config.json. base: the
// model that it is for, of which config.json is enough. Throws Error for what such a file cannot hold
// (modules_to_save, learned steps), and as above.
std::string write_gguf_adapter(const GgufRequest& request, const weights::SafetensorsFile& adapter,
                               const config::RunConfig& settings, const weights::ModelFolder& base);

}  // namespace fathom::checkpoint
