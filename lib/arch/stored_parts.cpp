// After transformers 5's conversion_mapping.py.
#include "arch/stored_parts.h"

#include <algorithm>
#include <iterator>

#include "arch/text_part.h"

namespace fathom::arch {
namespace {

constexpr const char *kModule = "mlp.", *kMixtralModule = "block_sparse_moe.";
constexpr const char* kCorrection = "e_score_correction_bias";
constexpr std::string_view kGpt2Model = "transformer.";

const FeedForward& feed_forward_of(const Architecture& architecture, const ParameterSpec& spec) {
  return architecture.layers[static_cast<size_t>(spec.layer)].feed_forward;
}

bool has_files(const Architecture& architecture, const ParameterSpec& spec, ExpertFiles files) {
  return (spec.role == Role::kRouter || spec.role == Role::kCorrection || spec.role == Role::kExperts) &&
         feed_forward_of(architecture, spec).experts->files == files;
}
bool is_mixtral(const Architecture& architecture, const ParameterSpec& spec) {
  return has_files(architecture, spec, ExpertFiles::kMixtral);
}
bool is_granite(const Architecture& architecture, const ParameterSpec& spec) {
  return has_files(architecture, spec, ExpertFiles::kStacked);
}
bool is_turned(const Architecture& architecture, const ParameterSpec& spec) {
  return has_files(architecture, spec, ExpertFiles::kTurned);
}

std::vector<StoredPart> whole(const ParameterSpec& spec, std::string name) {
  return {{std::move(name), spec.shape, 0, spec.shape[0]}};
}

// Of all, where the other biases are a router's.
bool is_of_experts(const ParameterSpec& bias) { return !bias.name.ends_with(".bias"); }

// GPT-2's projections are stored by what they read.
std::vector<StoredPart> transposed(const ParameterSpec& spec, std::string name) {
  return {{std::move(name), {spec.shape[1], spec.shape[0]}, 0, spec.shape[0], /*transposed=*/true}};
}
bool is_gpt2(const Architecture& architecture) { return architecture.layers.front().naming == Naming::kGpt2; }

// All experts in one tensor.
std::vector<StoredPart> stacked(const ParameterSpec& spec, std::string name) {
  return {{std::move(name), {spec.experts, spec.shape[0] / spec.experts, spec.shape[1]}, 0, spec.shape[0]}};
}

// The same with the columns of each expert's matrix as rows.
std::vector<StoredPart> stacked_and_turned(const ParameterSpec& spec) {
  std::vector<StoredPart> parts = stacked(spec, spec.name);
  std::swap(parts.front().shape[1], parts.front().shape[2]);
  parts.front().transposed = true;
  return parts;
}

// The biases of all experts, a row for each.
std::vector<StoredPart> stacked_biases(const ParameterSpec& spec, int64_t experts) {
  return {{spec.name, {experts, spec.shape[0] / experts}, 0, spec.shape[0]}};
}

std::vector<StoredPart> of_granite(const Architecture& architecture, const ParameterSpec& spec) {
  const std::string prefix = architecture.layer_prefix(spec.layer) + kMixtralModule;
  if (spec.role == Role::kRouter) return whole(spec, prefix + "router.layer.weight");
  return stacked(spec, prefix + (spec.name.ends_with(".down_proj") ? "output_linear.weight" : "input_linear.weight"));
}

// A matrix for each expert, or two where the gate lies above the up projection.
std::vector<StoredPart> by_expert(const Architecture& architecture, const ParameterSpec& spec,
                                  const std::string& module, bool mixtral) {
  const std::string prefix = architecture.layer_prefix(spec.layer) + module + "experts.";
  const bool down = spec.name.ends_with(".down_proj");
  std::vector<const char*> names = {mixtral ? "w1" : "gate_proj", mixtral ? "w3" : "up_proj"};
  if (down) names = {mixtral ? "w2" : "down_proj"};
  const int64_t rows = spec.shape[0] / spec.experts / std::ssize(names);
  std::vector<StoredPart> parts;
  for (int64_t expert = 0; expert < spec.experts; ++expert) {
    for (const char* name : names) {
      parts.push_back({prefix + std::to_string(expert) + "." + name + ".weight",
                       {rows, spec.shape[1]},
                       std::ssize(parts) * rows,
                       rows});
    }
  }
  return parts;
}

}  // namespace

namespace {

std::vector<StoredPart> parts_in_decoder(const Architecture& architecture, const ParameterSpec& spec) {
  if (is_gpt2(architecture) && spec.role == Role::kProjection) return transposed(spec, spec.name);
  // That of a layer of torch, which has a dimension for channels that are convolved together.
  if (spec.role == Role::kConvolution) return {{spec.name, {spec.shape[0], 1, spec.shape[1]}, 0, spec.shape[0]}};
  if (is_granite(architecture, spec)) return of_granite(architecture, spec);
  if (has_files(architecture, spec, ExpertFiles::kWhole)) {
    return spec.role == Role::kExperts ? stacked(spec, spec.name) : whole(spec, spec.name);
  }
  if (is_turned(architecture, spec)) {
    return spec.role == Role::kExperts ? stacked_and_turned(spec) : whole(spec, spec.name);
  }
  if (spec.role == Role::kExpertBias && is_of_experts(spec)) {
    return stacked_biases(spec, feed_forward_of(architecture, spec).experts->count);
  }
  const bool mixtral = is_mixtral(architecture, spec);
  const std::string module = mixtral ? kMixtralModule : kModule;
  if (mixtral && spec.role == Role::kCorrection) {
    return whole(spec, architecture.layer_prefix(spec.layer) + module + kCorrection);
  }
  if (spec.role == Role::kExperts) return by_expert(architecture, spec, module, mixtral);
  if (spec.role == Role::kRouter) return whole(spec, architecture.layer_prefix(spec.layer) + module + "gate.weight");
  return whole(spec, spec.name);
}

std::vector<StoredPart> in_folder(const Architecture& architecture, std::vector<StoredPart> parts) {
  for (StoredPart& part : parts) part.name = stored_name(architecture.text_part, part.name);
  return parts;
}

std::vector<std::vector<StoredPart>> spellings_in_decoder(const Architecture& architecture, const ParameterSpec& spec) {
  std::vector<std::vector<StoredPart>> spellings = {parts_in_decoder(architecture, spec)};
  // The weights of the model below the head, whose own name is left out.
  if (is_gpt2(architecture) && spec.name.starts_with(kGpt2Model)) {
    spellings.push_back(spellings.front());
    spellings.back().front().name.erase(0, kGpt2Model.size());
  }
  if (spec.role == Role::kRouter && spellings.front().front().name != spec.name) {
    spellings.push_back(whole(spec, spec.name));
  }
  if (spec.role != Role::kExperts || is_turned(architecture, spec)) return spellings;
  if (is_mixtral(architecture, spec)) spellings.push_back(by_expert(architecture, spec, kModule, /*mixtral=*/true));
  spellings.push_back(has_files(architecture, spec, ExpertFiles::kWhole)
                          ? by_expert(architecture, spec, kModule, /*mixtral=*/false)
                          : stacked(spec, spec.name));
  return spellings;
}

}  // namespace

std::vector<StoredPart> stored_parts(const Architecture& architecture, const ParameterSpec& spec) {
  return in_folder(architecture, parts_in_decoder(architecture, spec));
}

std::vector<std::vector<StoredPart>> stored_spellings(const Architecture& architecture, const ParameterSpec& spec) {
  std::vector<std::vector<StoredPart>> spellings = spellings_in_decoder(architecture, spec);
  for (std::vector<StoredPart>& parts : spellings) parts = in_folder(architecture, std::move(parts));
  return spellings;
}

std::vector<std::vector<StoredPart>> spellings_in_codes(const Architecture& architecture, const ParameterSpec& spec) {
  if (architecture.quantized->library == quant::Library::kBlockFp8) return stored_spellings(architecture, spec);
  const std::string name = stored_name(architecture.text_part, spec.name);
  return {spec.experts > 1 ? stacked(spec, name) : whole(spec, name)};
}

bool may_be_stored_otherwise(std::string_view parameter) {
  return parameter.find(".experts.") != std::string_view::npos || parameter.starts_with(kGpt2Model) ||
         parameter.ends_with(".conv.weight") || parameter.ends_with(".conv1d.weight") ||
         parameter.ends_with(".gate.weight") || parameter.ends_with(".router.weight") ||
         parameter.ends_with(kCorrection);
}

bool stores_transposed(const Architecture& architecture) { return is_gpt2(architecture); }

bool is_stored_embedding(std::string_view tensor) {
  constexpr std::string_view kNames[] = {"model.embed_tokens.weight", "shared.weight", "transformer.wte.weight",
                                         "wte.weight"};
  return std::find(std::begin(kNames), std::end(kNames), name_in_decoder(std::string(tensor))) != std::end(kNames);
}

bool is_stored_head(std::string_view tensor) { return name_in_decoder(std::string(tensor)) == "lm_head.weight"; }

const char* why_not_stored_in_codes(const Architecture& architecture) {
  if (architecture.experts() != nullptr) return "has experts";
  return why_not_stored_in_blocks(architecture);
}

const char* why_not_stored_in_blocks(const Architecture& architecture) {
  const Experts* experts = architecture.experts();
  const bool turned = experts != nullptr && experts->files == ExpertFiles::kTurned;
  return turned || stores_transposed(architecture) ? "has matrices that folders store transposed" : nullptr;
}

}  // namespace fathom::arch
