// Random weights in a model's folder, under the names that folders have, in one file or in shards with their index.
#pragma once

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "arch/stored_parts.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json_value.h"
#include "weights/safetensors.h"

namespace fathom::random {

// Numbers of either sign and of magnitudes about 2^-6; ones for norms. dice: below(bound) draws from 0 to bound - 1.
inline std::string random_bytes(const arch::ParameterSpec& spec, DType type, auto& dice) {
  const bool ones = spec.name.ends_with("norm.weight");
  std::string bytes;
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const uint64_t bits = dice.below(uint64_t{1} << 32);
    if (type == DType::kF32) {
      const float value = ones ? 1.0F : (static_cast<float>(bits & 0xffff) / 65536.0F - 0.5F) / 16.0F;
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
  std::vector<arch::StoredPart> parts;
  std::vector<const arch::ParameterSpec*> owners;
  const std::vector<arch::ParameterSpec> specs = arch::parameter_specs(architecture);
  for (const arch::ParameterSpec& spec : specs) {
    for (arch::StoredPart& part : arch::stored_parts(architecture, spec)) {
      parts.push_back(std::move(part));
      owners.push_back(&spec);
    }
  }
  std::vector<arch::ParameterSpec> others;  // of the parts beside a text part
  for (const std::string& name : names_beside(architecture)) others.push_back({name, {3, 5}});
  for (const arch::ParameterSpec& spec : others) {
    parts.push_back({spec.name, spec.shape});
    owners.push_back(&spec);
  }
  contents.reserve(parts.size());
  Json map = Json::object();
  for (size_t i = 0; i < parts.size(); ++i) {
    arch::ParameterSpec spec = *owners[i];
    spec.shape = parts[i].shape;
    const std::string& bytes = contents.emplace_back(random_bytes(spec, stored_type(spec, type), dice));
    const size_t shard = i * count / parts.size();
    weights::TensorSource source;
    source.name = parts[i].name;
    source.dtype = stored_type(spec, type);
    source.shape = parts[i].shape;
    source.data = reinterpret_cast<const std::byte*>(bytes.data());
    shards[shard].push_back(source);
    map[parts[i].name] = shard_name(shard, count);
  }
  for (size_t i = 0; i < count; ++i) weights::write_safetensors(folder / shard_name(i, count), shards[i]);
  if (count > 1) {
    write_file_atomically(folder / "model.safetensors.index.json",
                          format_json({{"metadata", Json::object()}, {"weight_map", map}}));
  }
}

}  // namespace fathom::random
