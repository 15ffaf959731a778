// Fills the parameters of a base one after the other, so that no more than one is ever there twice.
#include "model/base_parameters.h"

#include <ATen/ATen.h>

#include <cstring>
#include <set>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "model/added_rows.h"
#include "model/stored_parameters.h"
#include "ops/scalar_type.h"

namespace fathom::model {
namespace {

// A part that goes to a GPU is widened there, not on the host.
void quantize_stored(const ops::QuantizedMatrix& matrix, const at::Tensor& stored_ND) {
  ops::quantize(matrix, [&](int64_t first, const at::Tensor& part_RD) {
    const at::Tensor rows_RD = stored_ND.narrow(0, first, part_RD.size(0));
    part_RD.copy_(part_RD.is_cuda() ? rows_RD.to(part_RD.device()) : rows_RD);
  });
}

void load_parameter(const BaseParameter& parameter, const arch::Architecture& architecture,
                    const weights::ModelFolder& folder, const std::string& where) {
  const std::string& name = parameter.spec.name;
  const auto entry = folder.find(name);
  if (!entry) throw Error(where + "there is no tensor " + name, "check that config.json belongs to the weights");
  const int64_t added = parameter.spec.has_row_per_token() ? architecture.added_tokens : 0;
  const at::Tensor stored = stored_tensor(parameter.spec, added, *entry, where);
  if (parameter.quantized) {
    quantize_stored(*parameter.quantized, stored);
  } else {
    parameter.tensor.narrow(0, 0, stored.size(0)).copy_(stored);
    if (added > 0) fill_added_rows(parameter.tensor.narrow(0, stored.size(0), added), *entry);
  }
  entry->file->release(*entry->info);
}

// transformers would take embeddings that differ for several.
void require_same(const weights::ModelFolder& folder, const std::string& name, const std::string& where) {
  const auto again = folder.find(name), first = folder.find("shared.weight");
  if (!first || (again->info->dtype == first->info->dtype && again->info->shape == first->info->shape &&
                 std::memcmp(again->data(), first->data(), static_cast<size_t>(first->info->bytes)) == 0)) {
    return;
  }
  throw Error(where + name + " differs from shared.weight, and one embedding is read for both",
              "save the model again with transformers, whose embeddings are tied");
}

// Those of a run that went before, or where rounding would be.
void load_steps(const BaseParameter& parameter, const weights::ModelFolder& folder, const std::string& where) {
  const std::string& name = parameter.name_of_step_sizes;
  const at::Tensor& log_steps_NG = parameter.quantizer->log_steps_NG;
  const auto entry = folder.find(name);
  if (!entry) return ops::initialise_steps(parameter.tensor, *parameter.quantizer);
  log_steps_NG.copy_(stored_tensor({name, log_steps_NG.sizes().vec()}, /*added=*/0, *entry, where));
}

}  // namespace

void load_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture,
               const weights::ModelFolder& folder) {
  const std::string where = folder.path().string() + ": ";
  std::set<std::string> known;
  for (const BaseParameter& parameter : base) {
    const std::string& name = parameter.spec.name;
    known.insert(name);
    if (parameter.quantized && architecture.quantized) {
      const auto tensors = copy_stored(*parameter.quantized, name, *architecture.quantized, folder);
      known.insert(tensors.begin(), tensors.end());
    } else {
      load_parameter(parameter, architecture, folder, where);
    }
    if (!parameter.quantizer) continue;
    load_steps(parameter, folder, where);
    known.insert(parameter.name_of_step_sizes);
  }
  for (const std::string& name : folder.names()) {
    if (architecture.encoder && is_embedding_again(name)) require_same(folder, name, where);
    if (known.contains(name) || is_ignored(name, architecture)) continue;
    if (arch::is_name_of_step_sizes(name)) {
      throw Error(where + name + " holds steps of quantization-aware training, which these weights need",
                  "set qat to the type in its name, or name what `fathom export` makes of the folder");
    }
    throw Error(where + "tensor " + name + " has no place in " + architecture.family,
                "check that config.json belongs to the weights");
  }
}

void initialise_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture) {
  for (const BaseParameter& parameter : base) {
    if (parameter.quantized && architecture.quantized) {
      parameter.quantized->codes.zero_();
      parameter.quantized->scales.zero_();
      if (parameter.quantized->outer_scales.defined()) parameter.quantized->outer_scales.zero_();
    } else if (parameter.quantized) {
      ops::quantize(*parameter.quantized,
                    [&](int64_t, const at::Tensor& part_RD) { part_RD.normal_(0, parameter.spec.initial_std); });
    } else if (parameter.spec.is_matrix()) {
      parameter.tensor.normal_(0, parameter.spec.initial_std);
    } else {
      parameter.tensor.fill_(parameter.spec.role == arch::Role::kBias ? 0 : 1 - architecture.norm_offset);
    }
    if (parameter.quantizer) ops::initialise_steps(parameter.tensor, *parameter.quantizer);
  }
}

}  // namespace fathom::model
