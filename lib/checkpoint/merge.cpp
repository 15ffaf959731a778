// Each source merges its tensor when it is read, so that the largest tensor decides how much memory that takes.
#include "checkpoint/merge.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "arch/parameter_table.h"
#include "arch/read_folder.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "checkpoint/model_files.h"
#include "model/added_rows.h"
#include "model/stored_parameters.h"
#include "ops/scalar_type.h"

namespace fathom::checkpoint {
namespace {

using weights::ModelFolder;
using weights::SafetensorsFile;
using weights::TensorInfo;

constexpr int64_t kBlockElements = int64_t{1} << 22;

bool is_of_vocabulary(const std::string& name) { return arch::is_stored_embedding(name) || arch::is_stored_head(name); }

// What an adapter does to one tensor of the base.
struct Change {
  const TensorInfo* a_RD = nullptr;
  const TensorInfo* b_NR = nullptr;
  const TensorInfo* whole = nullptr;
  bool is_transposed = false;  // the base's folder has the columns of the matrix as rows, of all experts of each
  // Of a matrix of an expert: how many experts the adapter is for, which one this is, and where in its rows it begins.
  bool is_part = false;
  int64_t experts = 1, expert = 0, first_row = 0;
};

at::Tensor view(const std::byte* bytes, const std::vector<int64_t>& shape, DType dtype) {
  return at::from_blob(const_cast<std::byte*>(bytes), shape, at::TensorOptions(ops::scalar_type(dtype)));
}

at::Tensor view(const SafetensorsFile& file, const TensorInfo& tensor) {
  return view(file.data(tensor), tensor.shape, tensor.dtype);
}

[[noreturn]] void refuse(const SafetensorsFile& adapter, const TensorInfo& tensor, const std::string& why) {
  throw Error(adapter.path().string() + ": tensor '" + tensor.name + "' " + why, "is this the base it was trained on?");
}

// Names changes as the base's folder names what they change. An adapter of a layer's experts changes the matrices of
// each.
void name_as_stored(const ModelFolder& base, std::map<std::string, Change>& changes) {
  if (std::none_of(changes.begin(), changes.end(),
                   [](const auto& change) { return arch::may_be_stored_otherwise(change.first); })) {
    std::map<std::string, Change> named;
    for (const auto& [name, change] : changes) {
      named[arch::found_name(name, [&](const auto& each) { return base.find(each).has_value(); })] = change;
    }
    return named.swap(changes);
  }
  const arch::Architecture architecture = arch::read_architecture(base);
  const auto parts_in = [&](const arch::ParameterSpec& spec) {
    for (const auto& parts : arch::stored_spellings(architecture, spec)) {
      if (base.find(parts.front().name)) return parts;
    }
    return arch::stored_parts(architecture, spec);
  };
  std::map<std::string, Change> divided;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    if (spec.role != arch::Role::kExperts && spec.role != arch::Role::kRouter) {
      if (auto change = changes.extract(spec.name)) {
        const arch::StoredPart part = parts_in(spec).front();
        change.mapped().is_transposed = part.transposed;
        divided[part.name] = change.mapped();
      }
      continue;
    }
    const bool is_router = spec.role == arch::Role::kRouter;
    const std::string twice = spec.module() + ".base_layer.weight";
    const bool wrapped = changes.contains(twice), first = wrapped && spec.name.ends_with(".gate_up_proj");
    const std::string key = is_router ? spec.name : first ? twice : spec.module() + ".weight";
    const auto found = changes.find(key);
    if (found == changes.end()) continue;
    Change change = found->second;
    // The only adapter of a layer's experts is of the one or the other.
    const bool fits =
        is_router || wrapped || change.b_NR == nullptr || change.a_RD == nullptr ||
        (change.b_NR->shape.front() == spec.shape[0] / spec.experts && change.a_RD->shape.back() == spec.shape[1]);
    if (!fits) continue;
    changes.erase(found);
    const std::vector<arch::StoredPart> parts = parts_in(spec);
    for (const arch::StoredPart& part : parts) {
      change.is_part = !is_router;
      change.experts = spec.experts;
      change.expert = part.first_row / (spec.shape[0] / spec.experts);
      change.first_row = part.first_row % (spec.shape[0] / spec.experts);
      change.is_transposed = part.transposed;
      divided[part.name] = change;
    }
  }
  changes.merge(divided);
}

// By the name of the base's tensor.
std::map<std::string, Change> changes_of(const SafetensorsFile& adapter) {
  std::map<std::string, Change> changes;
  for (const TensorInfo& tensor : adapter.tensors()) {
    if (!tensor.name.starts_with(kAdapterPrefix)) refuse(adapter, tensor, "is not named as PEFT names an adapter's");
    const std::string name = arch::name_in_decoder(tensor.name.substr(std::strlen(kAdapterPrefix)));
    if (arch::is_name_of_step_sizes(name)) continue;  // checkpoint/learned_codes.h
    const auto stem = [&](const std::string& ending) -> std::optional<std::string> {
      if (!name.ends_with(ending)) return std::nullopt;
      return name.substr(0, name.size() - ending.size()) + ".weight";
    };
    if (const auto module = stem(".lora_A.weight")) {
      changes[*module].a_RD = &tensor;
    } else if (const auto module = stem(".lora_B.weight")) {
      changes[*module].b_NR = &tensor;
    } else {
      changes[name].whole = &tensor;
    }
  }
  return changes;
}

// shape: of the merged tensor.
void check(const SafetensorsFile& adapter, const Change& change, const TensorInfo& weight_ND,
           const std::vector<int64_t>& shape) {
  if (change.whole != nullptr) {
    const bool same = change.whole->shape == shape;
    if (!same || change.a_RD != nullptr || change.b_NR != nullptr)
      refuse(adapter, *change.whole, "has another shape than the base's");
    return;
  }
  if (change.a_RD == nullptr) refuse(adapter, *change.b_NR, "has no lora_A beside it");
  if (change.b_NR == nullptr) refuse(adapter, *change.a_RD, "has no lora_B beside it");
  const auto &a = change.a_RD->shape, &b = change.b_NR->shape;
  std::vector<int64_t> weight = weight_ND.shape;
  const bool all_experts = weight.size() == 3 && weight[0] == change.experts;
  if (all_experts) weight.erase(weight.begin());
  if (change.is_transposed) std::reverse(weight.begin(), weight.end());
  const bool rows_fit = change.is_part && !all_experts
                            ? b.size() == 2 && weight.size() == 2 && change.first_row + weight[0] <= b[0]
                            : b.size() == 2 && weight.size() == 2 && b[0] == weight[0];
  const bool fit = a.size() == 2 && rows_fit && a[0] == b[1] && a[0] % change.experts == 0 && a[1] == weight[1];
  if (!fit) refuse(adapter, *change.a_RD, "does not fit the base's " + weight_ND.name);
}

void add_adapter(const at::Tensor& out_ND, const at::Tensor& weight_ND, const at::Tensor& a_RD, const at::Tensor& b_NR,
                 double scaling) {
  const int64_t rows = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, weight_ND.size(1)));
  for (int64_t row = 0; row < weight_ND.size(0); row += rows) {
    const int64_t count = std::min(rows, weight_ND.size(0) - row);
    const at::Tensor block_ND = weight_ND.narrow(0, row, count).to(at::kFloat);
    out_ND.narrow(0, row, count).copy_(at::addmm(block_ND, b_NR.narrow(0, row, count), a_RD, 1, scaling));
  }
}

void merge(std::byte* destination, const ModelFolder::Entry& weight, const SafetensorsFile& adapter,
           const Change& change, const arch::LoraOptions& lora) {
  const at::NoGradGuard no_gradients;
  const TensorInfo& info = *weight.info;
  if (change.whole != nullptr) {
    view(destination, change.whole->shape, info.dtype).copy_(view(adapter, *change.whole));
    return;
  }
  const at::Tensor out_ND = view(destination, info.shape, info.dtype);
  const at::Tensor weight_ND = view(*weight.file, info);
  const at::Tensor a_RD = view(adapter, *change.a_RD).to(at::kFloat), b_NR = view(adapter, *change.b_NR).to(at::kFloat);
  const int64_t rank = a_RD.size(0) / change.experts;
  const double scaling = lora.scaling(rank);
  const auto in_rows = [&](const at::Tensor& x) { return change.is_transposed ? x.t() : x; };
  if (!change.is_part) return add_adapter(in_rows(out_ND), in_rows(weight_ND), a_RD, b_NR, scaling);
  const at::Tensor b_ORN = b_NR.view({-1, rank, change.experts});
  const auto add = [&](int64_t expert, const at::Tensor& out, const at::Tensor& stored) {
    add_adapter(out, stored, a_RD.narrow(0, expert * rank, rank),
                b_ORN.select(2, expert).narrow(0, change.first_row, stored.size(0)), scaling);
  };
  if (weight_ND.dim() == 2) return add(change.expert, out_ND, weight_ND);
  for (int64_t expert = 0; expert < change.experts; ++expert) {
    add(expert, in_rows(out_ND.select(0, expert)), in_rows(weight_ND.select(0, expert)));
  }
}

// As source_of, with rows for tokens that the base does not know.
weights::TensorSource grown_source(const ModelFolder::Entry& entry, const std::vector<int64_t>& shape) {
  weights::TensorSource source{entry.info->name, entry.info->dtype, shape, {}, nullptr};
  source.read = [entry, shape](std::byte* destination, int64_t bytes) {
    if (bytes == 0) return;
    std::memcpy(destination, entry.data(), static_cast<size_t>(entry.info->bytes));
    const int64_t stored = entry.info->shape[0];
    model::fill_added_rows(view(destination, shape, entry.info->dtype).narrow(0, stored, shape[0] - stored), entry);
    entry.file->release(*entry.info);
  };
  return source;
}

weights::TensorSource source_of(const ModelFolder::Entry& entry) {
  weights::TensorSource source{entry.info->name, entry.info->dtype, entry.info->shape, {}, nullptr};
  source.read = [entry](std::byte* destination, int64_t bytes) {
    if (bytes > 0) std::memcpy(destination, entry.data(), static_cast<size_t>(bytes));
    entry.file->release(*entry.info);
  };
  return source;
}

}  // namespace

std::vector<weights::TensorSource> plain_sources(const ModelFolder& folder) {
  std::vector<weights::TensorSource> sources;
  for (const std::string& name : folder.names()) sources.push_back(source_of(*folder.find(name)));
  return sources;
}

std::optional<int64_t> saved_vocabulary(const SafetensorsFile& adapter) {
  for (const TensorInfo& tensor : adapter.tensors()) {
    if (!tensor.name.starts_with(kAdapterPrefix) || tensor.shape.empty()) continue;
    if (is_of_vocabulary(tensor.name.substr(std::string_view(kAdapterPrefix).size()))) return tensor.shape[0];
  }
  return std::nullopt;
}

std::vector<weights::TensorSource> merged_sources(const ModelFolder& base, const SafetensorsFile& adapter,
                                                  const arch::LoraOptions& lora, int64_t vocabulary) {
  std::vector<weights::TensorSource> sources = plain_sources(base);
  std::map<std::string, Change> changes = changes_of(adapter);
  name_as_stored(base, changes);
  // Of a tied head PEFT writes the one matrix under both names.
  const bool embedding_changes = std::any_of(
      changes.begin(), changes.end(), [](const auto& change) { return arch::is_stored_embedding(change.first); });
  if (embedding_changes) {
    std::erase_if(changes,
                  [&](const auto& change) { return arch::is_stored_head(change.first) && !base.find(change.first); });
    // under its other names it would stay as it was
    std::erase_if(sources, [](const auto& source) { return model::is_embedding_again(source.name); });
    std::erase_if(changes, [](const auto& change) { return model::is_embedding_again(change.first); });
  }
  for (weights::TensorSource& source : sources) {
    const ModelFolder::Entry entry = *base.find(source.name);
    const std::vector<int64_t>& stored = entry.info->shape;
    if (is_of_vocabulary(source.name) && stored.size() == 2 && stored[0] < vocabulary) {
      source = grown_source(entry, {vocabulary, stored[1]});
    }
    const auto found = changes.find(source.name);
    if (found == changes.end()) continue;
    check(adapter, found->second, *entry.info, source.shape);
    source.read = [entry, &adapter, change = found->second, lora](std::byte* destination, int64_t bytes) {
      if (bytes > 0) merge(destination, entry, adapter, change, lora);
      entry.file->release(*entry.info);
    };
    changes.erase(found);
  }
  for (const auto& [name, change] : changes) {
    const TensorInfo* tensor = change.whole != nullptr  ? change.whole
                               : change.a_RD != nullptr ? change.a_RD
                                                        : change.b_NR;
    refuse(adapter, *tensor, "belongs to " + name + ", which the base does not have");
  }
  return sources;
}

}  // namespace fathom::checkpoint
