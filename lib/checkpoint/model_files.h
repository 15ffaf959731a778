// A trained model or adapter as Hugging Face's libraries read it: transformers' folder, or PEFT's for a LoRA adapter.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arch/parameter_table.h"
#include "base/dtype.h"
#include "base/json.h"
#include "checkpoint/named_tensors.h"
#include "model/decoder.h"
#include "weights/folder.h"
#include "weights/manifest.h"
#include "weights/shared_safetensors.h"

namespace fathom::checkpoint {

// What PEFT puts in front of the names of an adapter's tensors.
inline constexpr char kAdapterPrefix[] = "base_model.model.";
// What transformers calls the matrix of the head.
inline constexpr char kHead[] = "lm_head.weight";

// What goes beside the weights.
struct ModelFiles {
  std::filesystem::path source;  // the folder that was trained: config.json and the tokenizer's files are copied
  std::optional<arch::LoraOptions> lora;  // set: the parameters are adapters on `source`
  std::string base = {};  // what the adapters call it: its path, or its name on the hub; empty: the path of `source`
  // Of a folder of which the parameters are the text part: how they are called there, and all other tensors, which go
  // along as they are.
  std::optional<arch::TextPart> text_part = {};
  std::vector<weights::TensorSource> others = {};
};

// Of what a model is trained from, which must live until the last of it is written. base: as ModelFiles has it.
ModelFiles files_of(const weights::ModelFolder& folder, const model::Decoder& model, const std::string& base);

// The files of a folder that make tokens of texts and of whatever else the model reads, and its chat templates, by
// their names within it.
std::vector<std::string> tokenizer_files(const std::filesystem::path& folder);
// A config.json with the dtype that the weights have now, under the keys that it used for it, and with the rows that
// the embedding has, unless it is null.
Json config_as_stored(Json config, DType dtype, std::optional<int64_t> vocabulary = std::nullopt);

// "model.safetensors", or "adapter_model.safetensors" for an adapter.
std::string weights_file_name(const ModelFiles& files);
// kAdapterPrefix of an adapter; empty for a whole model.
std::string weights_prefix(const ModelFiles& files);
// What an adapter's file calls a tensor of the decoder; where it has none, as on a decoder alone.
std::string name_in_adapter(const weights::SafetensorsFile& adapter, const std::string& name);

// Of an adapter, PEFT holds an embedding that is tied to the head under both names, and T5's under those of its stacks
// as well: the parameters with these names for the embedding too, where the file has them.
NamedTensors with_repeated_embedding(NamedTensors parameters, const weights::SafetensorsFile& adapter);

// Writes into an existing folder, without sync, and returns what was written, the weights last: config.json (dtype as
// stored) and generation_config.json, or adapter_config.json; the tokenizer's files; the weights in their own dtypes.
// Throws Error for weights that are not all finite. writers: of parameters in shares; the first of them writes what is
// beside the weights and alone knows all hashes. failure: set where something beside the weights could not be written,
// which is then left out; null: that is thrown.
std::vector<weights::FileRecord> write_model_files(const std::filesystem::path& folder, const NamedTensors& parameters,
                                                   const ModelFiles& files, weights::Writers* writers = nullptr,
                                                   std::string* failure = nullptr);
// Writes such tensors into a file that write_model_files or a checkpoint has, under its name.
weights::FileRecord write_tensors(const std::filesystem::path& path, const std::vector<weights::TensorSource>& tensors,
                                  weights::Numbers numbers, weights::Writers* writers);
// Bytes of all that it writes.
int64_t model_bytes(const NamedTensors& parameters, const ModelFiles& files);

// Throws Error where something stands in output_dir that a file of the model cannot take the place of: a folder, or a
// link instead of the folder that it goes into.
void require_places(const std::filesystem::path& output_dir, const ModelFiles& files);

// The staging folder of write_model: what a killed one leaves.
inline constexpr char kModelStaging[] = ".model.partial";

// The same into output_dir, where each file appears whole or not at all, the weights last. Makes the folder if need be.
// What cannot be written beside the weights (a base whose folder is gone) is left out, and thrown once they are there.
void write_model(const std::filesystem::path& output_dir, const NamedTensors& parameters, const ModelFiles& files,
                 weights::Writers* writers = nullptr);

}  // namespace fathom::checkpoint
