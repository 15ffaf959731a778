// Random weights in a model's folder, under the names that folders have, in one file or in shards with their index.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "arch/architecture.h"
#include "arch/stored_parts.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json_value.h"
#include "quant/folder_tensors.h"
#include "weights/safetensors.h"

namespace fathom::random {

// Numbers of either sign and of magnitudes about 2^-6, or codes and scales of such; ones for norms. dice: below(bound)
// draws from 0 to bound - 1.
inline std::string random_bytes(const arch::ParameterSpec& spec, DType type, auto& dice) {
  const bool ones = spec.name.ends_with("norm.weight"), exponents = spec.name.ends_with("_scales");
  const bool scales = spec.name.ends_with("_scale_inv");
  std::string bytes;
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const uint64_t bits = dice.below(uint64_t{1} << 32);
    if (type == DType::kU8) {
      bytes.push_back(static_cast<char>(exponents ? 117 + bits % 5 : bits & 0xff));
      continue;
    }
    if (type == DType::kF8E4M3) {
      bytes.push_back(static_cast<char>((bits & 0x80) | (bits & 0x7f) % 127));  // no NaN
      continue;
    }
    if (type == DType::kF32) {
      float value = (static_cast<float>(bits & 0xffff) / 65536.0F - 0.5F) / 16.0F;
      if (ones) value = 1;
      if (scales) value = std::ldexp(1.0F + static_cast<float>(bits & 0xff) / 256, -13);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      continue;
    }
    const auto sign = static_cast<uint16_t>((bits & 1) << 15);
    uint16_t value = 0;
    if (type == DType::kBF16) value = ones ? 0x3f80 : static_cast<uint16_t>(sign | 0x3c00 | (bits >> 8 & 0xff));
    if (type == DType::kF16) value = ones ? 0x3c00 : static_cast<uint16_t>(sign | 0x2400 | (bits >> 8 & 0x3ff));
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

// Folders of Qwen3.5 have these two in FP32 beside BF16 (vllm-project/vllm#51836).
inline DType stored_type(const arch::ParameterSpec& spec, DType type) {
  return spec.role == arch::Role::kDecayRate || spec.role == arch::Role::kGateNorm ? DType::kF32 : type;
}

// What a folder has in the place of a parameter, by its names and shapes there and in its types.
inline std::vector<std::pair<arch::ParameterSpec, DType>> stored_as(const arch::Architecture& architecture,
                                                                    const arch::ParameterSpec& spec, DType type) {
  std::vector<std::pair<arch::ParameterSpec, DType>> stored;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, DType as) {
    stored.emplace_back(spec, as);
    stored.back().first.name = name;
    stored.back().first.shape = shape;
  };
  const auto& codes = architecture.quantized;
  if (codes && spec.may_be_coded_in(codes->scheme)) {
    const std::vector<arch::StoredPart> parts = arch::spellings_in_codes(architecture, spec).front();
    for (const arch::StoredPart& part : parts) {
      for (const quant::StoredTensor& tensor :
           quant::tensors_of_matrix(*codes, part.name, part.rows, spec.shape[1], part.matrices())) {
        add(tensor.name, tensor.shape, tensor.dtype);
      }
    }
    return stored;
  }
  for (const arch::StoredPart& part : arch::stored_parts(architecture, spec)) {
    add(part.name, part.shape, stored_type(spec, type));
  }
  return stored;
}

// Of other parts than text, where folders that call their text part so have some.
inline std::vector<std::string> names_beside(const arch::Architecture& architecture) {
  if (!architecture.text_part) return {};
  const std::string& model = architecture.text_part->model;
  if (model == "language_model.model.") {
    return {"multi_modal_projector.norm.weight", "vision_tower.encoder.layers.0.mlp.fc1.weight"};
  }
  const std::string visual = model == "model." ? "visual." : "model.visual.";
  return {"mtp.fc.weight", visual + "blocks.0.attn.qkv.bias", visual + "merger.mlp.0.weight"};
}

inline std::string shard_name(size_t shard, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
  return name;
}

inline void write_weights(const arch::Architecture& architecture, DType type, size_t count,
                          const std::filesystem::path& folder, auto& dice) {
  std::vector<std::vector<weights::TensorSource>> shards(count);
  std::vector<std::string> contents;  // of all tensors, which the sources point into
  std::vector<std::pair<arch::ParameterSpec, DType>> parts;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    for (auto& part : stored_as(architecture, spec, type)) parts.push_back(std::move(part));
  }
  for (const std::string& name : names_beside(architecture)) {
    parts.emplace_back(arch::ParameterSpec{name, {3, 5}}, type);
  }
  contents.reserve(parts.size());
  Json map = Json::object();
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [spec, dtype] = parts[i];
    const std::string& bytes = contents.emplace_back(random_bytes(spec, dtype, dice));
    const size_t shard = i * count / parts.size();
    weights::TensorSource source;
    source.name = spec.name;
    source.dtype = dtype;
    source.shape = spec.shape;
    source.data = reinterpret_cast<const std::byte*>(bytes.data());
    shards[shard].push_back(source);
    map[spec.name] = shard_name(shard, count);
  }
  for (size_t i = 0; i < count; ++i) weights::write_safetensors(folder / shard_name(i, count), shards[i]);
  if (count > 1) {
    write_file_atomically(folder / "model.safetensors.index.json",
                          format_json({{"metadata", Json::object()}, {"weight_map", map}}));
  }
}

}  // namespace fathom::random
