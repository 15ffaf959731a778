// Tensors over mapped bytes.
#include "model/stored_parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "arch/stored_parts.h"
#include "base/error.h"
#include "ops/scalar_type.h"
#include "quant/stored_matrix.h"
#include "weights/other_parts.h"

namespace fathom::model {
namespace {

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

// Beyond the last one that there is.
bool is_of_later_layer(const std::string& name, const arch::Architecture& architecture) {
  return name.starts_with(architecture.layer_prefix(architecture.num_hidden_layers()));
}

void copy_from(const at::Tensor& to, const void* from) {
  to.copy_(at::from_blob(const_cast<void*>(from), to.sizes(), at::TensorOptions().dtype(to.scalar_type())));
}

// Of elements that rows have equally many of, a part's: first and count. A part that is the whole matrix has all, since
// NF4's blocks, and the bytes of its codes, may go on across the ends of rows.
std::pair<int64_t, int64_t> place_of(const arch::StoredPart& part, int64_t rows, int64_t elements) {
  if (part.rows == rows) return {0, elements};
  const int64_t each = elements / rows;
  return {part.first_row * each, part.rows * each};
}

void copy_part(const ops::QuantizedMatrix& matrix, const arch::StoredPart& part, const quant::StoredMatrix& stored,
               const UnitKeeper* units) {
  const auto of_part = [&](const at::Tensor& all) {
    const auto [first, count] = place_of(part, matrix.rows, all.numel());
    return all.view({-1}).narrow(0, first, count);
  };
  if (units == nullptr) {
    copy_from(of_part(matrix.codes), stored.codes);
  } else {
    const at::Tensor to = matrix.codes.view(at::kByte).view({-1});
    const auto [first, count] = place_of(part, matrix.rows, to.numel());
    for (const UnitKeeper::Kept& kept : units->kept(matrix.codes)) {
      const int64_t begin = std::max(first, kept.first);
      const int64_t end = std::min(first + count, kept.first + kept.bytes.numel());
      if (begin < end) copy_from(to.narrow(0, begin, end - begin), stored.codes + (begin - first));
    }
  }
  const bool bytes = quant::has_byte_scales(matrix.scheme);
  copy_from(of_part(matrix.scales), bytes ? static_cast<const void*>(stored.scale_codes.data()) : stored.scales.data());
  if (matrix.outer_scales.defined()) copy_from(matrix.outer_scales, stored.outer_scales.data());
}

}  // namespace

std::vector<arch::StoredPart> spelling_in(const weights::ModelFolder& folder,
                                          std::vector<std::vector<arch::StoredPart>> spellings) {
  const auto found =
      std::ranges::find_if(spellings, [&](const auto& parts) { return folder.find(parts.front().name).has_value(); });
  return std::move(found == spellings.end() ? spellings.front() : *found);
}

bool is_ignored(const std::string& name, const arch::Architecture& architecture) {
  if (name.ends_with("rotary_emb.inv_freq")) return true;
  if (architecture.tie_word_embeddings && arch::is_stored_head(name)) return true;
  if (architecture.text_part && weights::is_of_other_part(name)) return true;
  // What predicts tokens after the next one, which transformers leaves out too.
  const arch::Naming naming = architecture.layers.front().naming;
  const bool qwen = naming == arch::Naming::kQwen35 || naming == arch::Naming::kQwen3Next;
  if (qwen && name.starts_with("mtp.")) return true;
  if (naming == arch::Naming::kGlmMoe && is_of_later_layer(name, architecture)) return true;
  // Causal masks, which transformers once saved with GPT-2.
  if (architecture.learned_positions && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")))
    return true;
  if (!architecture.encoder) return false;
  // A table that T5's first code saved and never read.
  return is_embedding_again(name) || name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

at::Tensor stored_tensor(const arch::ParameterSpec& spec, int64_t added, const weights::ModelFolder::Entry& entry,
                         const std::string& where) {
  const weights::TensorInfo& info = *entry.info;
  std::vector<int64_t> expected = spec.shape;
  expected[0] -= added;
  if (expected != info.shape) {
    const bool other_rows = spec.has_row_per_token() && info.shape.size() == 2 && info.shape[1] == expected[1];
    throw Error(
        where + spec.name + " is " + shape_text(info.shape) + ", but config.json makes it " + shape_text(expected),
        other_rows ? "set vocab_size in config.json to " + std::to_string(info.shape[0]) +
                         ", or take the config.json that belongs to the weights"
                   : "take the config.json that belongs to the weights");
  }
  if (!is_floating(info.dtype) || size_of(info.dtype) < 2) {
    throw Error(where + spec.name + " is stored as " + std::string(safetensors_name(info.dtype)),
                "weights must be F64, F32, F16 or BF16");
  }
  void* bytes = const_cast<std::byte*>(entry.data());
  return at::from_blob(bytes, info.shape, at::TensorOptions().dtype(ops::scalar_type(info.dtype)));
}

std::vector<std::string> copy_stored(const ops::QuantizedMatrix& matrix, const arch::ParameterSpec& spec,
                                     const arch::Architecture& architecture, const weights::ModelFolder& folder,
                                     const UnitKeeper* units) {
  std::vector<std::string> tensors;
  for (const arch::StoredPart& part : spelling_in(folder, arch::spellings_in_codes(architecture, spec))) {
    const quant::StoredMatrix stored =
        quant::find_matrix(folder, *architecture.quantized, part.name, part.rows, matrix.columns, part.matrices());
    copy_part(matrix, part, stored, units);
    for (const std::string& tensor : stored.tensors) {
      const auto entry = folder.find(tensor);
      entry->file->release(*entry->info);
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

}  // namespace fathom::model
