// Fills the parameters of a base one after the other, so that no more than one is ever there twice.
#include "model/base_parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "arch/parameter_table.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "base/rounding.h"
#include "model/added_rows.h"
#include "model/stored_parameters.h"
#include "ops/copy_turned.h"
#include "ops/scalar_type.h"

namespace fathom::model {
namespace {

// Tensors of a folder that are rows of a parameter, in the order of these rows.
class StoredRows {
 public:
  StoredRows(const arch::ParameterSpec& spec, const arch::Architecture& architecture,
             const weights::ModelFolder& folder, const std::string& where) {
    const auto spellings = arch::stored_spellings(architecture, spec);
    const auto found = std::find_if(spellings.begin(), spellings.end(),
                                    [&](const auto& parts) { return folder.find(parts.front().name).has_value(); });
    const int64_t added = spec.has_row_per_token() ? architecture.added_tokens : 0;
    for (const arch::StoredPart& part : found == spellings.end() ? spellings.front() : *found) {
      const auto entry = folder.find(part.name);
      if (!entry) {
        throw Error(where + "there is no tensor " + part.name, "check that config.json belongs to the weights");
      }
      arch::ParameterSpec of_part = spec;
      of_part.name = part.name;
      of_part.shape = part.shape;
      const at::Tensor stored = stored_tensor(of_part, added, *entry, where);
      const bool stacked = part.shape.size() != spec.shape.size();
      if (stacked && part.transposed) {
        for (int64_t expert = 0; expert < stored.size(0); ++expert) tensors_.push_back(stored.select(0, expert).t());
      } else {
        tensors_.push_back(part.transposed ? stored.t() : stacked ? stored.flatten(0, 1) : stored);
      }
      entries_.push_back(*entry);
    }
  }

  // Rows from `first` on fill `to`. widens: on a GPU `to` is wider, and they are widened there, not on the host.
  void copy(int64_t first, const at::Tensor& to, bool widens) const {
    int64_t done = 0, begin = 0;
    for (const at::Tensor& tensor : tensors_) {
      const int64_t end = begin + tensor.size(0), row = first + done;
      if (row >= begin && row < end && done < to.size(0)) {
        const int64_t count = std::min(end - row, to.size(0) - done);
        const at::Tensor rows = tensor.narrow(0, row - begin, count);
        ops::copy_turned(to.narrow(0, done, count), widens && to.is_cuda() ? rows.to(to.device()) : rows);
        done += count;
      }
      begin = end;
    }
  }
  int64_t count() const {
    int64_t rows = 0;
    for (const at::Tensor& tensor : tensors_) rows += tensor.size(0);
    return rows;
  }
  const weights::ModelFolder::Entry& last() const { return entries_.back(); }
  void release() const {
    for (const weights::ModelFolder::Entry& entry : entries_) entry.file->release(*entry.info);
  }
  void name(std::set<std::string>& known) const {
    for (const weights::ModelFolder::Entry& entry : entries_) known.insert(entry.info->name);
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<weights::ModelFolder::Entry> entries_;
};

// The rows of a parameter that what is kept here of it is made of.
class KeptRows {
 public:
  KeptRows(const BaseParameter& parameter, const UnitKeeper* units) {
    if (units == nullptr || parameter.quantizer) {  // step sizes begin with what all rows are
      ranges_.emplace_back(0, kAll);
    } else if (parameter.quantized) {
      add_of(*parameter.quantized, *units);
    } else {
      const at::Tensor& tensor = parameter.tensor;
      const int64_t row = tensor.numel() == 0 ? 1 : tensor.numel() / tensor.size(0) * tensor.element_size();
      for (const UnitKeeper::Kept& kept : units->kept(tensor)) add(kept, row);
    }
  }
  bool any(int64_t first, int64_t count) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const auto& range) { return range.first < first + count && first < range.second; });
  }
  // Those of the first `rows`.
  template <typename Use>
  void for_each(int64_t rows, const Use& use) const {
    for (const auto& [first, end] : ranges_) {
      if (first < rows) use(first, std::min(end, rows) - first);
    }
  }

 private:
  static constexpr int64_t kAll = INT64_MAX;

  // bytes: of each row.
  void add(const UnitKeeper::Kept& kept, int64_t bytes) {
    ranges_.emplace_back(kept.first / bytes, divide_up(kept.first + kept.bytes.numel(), bytes));
  }
  void add_of(const ops::QuantizedMatrix& matrix, const UnitKeeper& units) {
    const bool by_rows = quant::has_row_scales(matrix.scheme), in_4_bits = quant::is_in_4_bits(matrix.scheme);
    for (const UnitKeeper::Kept& kept : units.kept(matrix.codes)) {
      in_4_bits ? add_numbers(kept, matrix, 2, 1) : add(kept, matrix.columns);  // in 4 bits two in a byte
    }
    const int64_t scale_bytes = matrix.scales.element_size();
    for (const UnitKeeper::Kept& kept : units.kept(matrix.scales)) {
      if (matrix.outer_scales.defined()) {  // the scale of scales is of all
        ranges_.emplace_back(0, kAll);
      } else {
        by_rows ? add(kept, scale_bytes) : add_numbers(kept, matrix, quant::block_of(matrix.scheme), scale_bytes);
      }
    }
    if (!matrix.outer_scales.defined()) return;
    if (!units.kept(matrix.outer_scales).empty()) ranges_.emplace_back(0, kAll);
  }
  // Of each element of so many bytes so many numbers.
  void add_numbers(const UnitKeeper::Kept& kept, const ops::QuantizedMatrix& matrix, int64_t numbers, int64_t bytes) {
    const int64_t first = kept.first / bytes * numbers, end = (kept.first + kept.bytes.numel()) / bytes * numbers;
    ranges_.emplace_back(first / matrix.columns, divide_up(end, matrix.columns));
  }

  std::vector<std::pair<int64_t, int64_t>> ranges_;  // first and behind the last
};

// The names of the tensors that it took join `known`.
void load_parameter(const BaseParameter& parameter, const arch::Architecture& architecture,
                    const weights::ModelFolder& folder, const std::string& where, const UnitKeeper* units,
                    std::set<std::string>& known) {
  const StoredRows stored(parameter.spec, architecture, folder, where);
  const KeptRows kept(parameter, units);
  if (parameter.quantized) {
    ops::quantize(*parameter.quantized, [&](int64_t first, const at::Tensor& part_RD) {
      if (kept.any(first, part_RD.size(0))) {
        stored.copy(first, part_RD, /*widens=*/true);
      } else {
        part_RD.zero_();  // its codes are another process's
      }
    });
  } else {
    const int64_t rows = stored.count(), added = parameter.tensor.size(0) - rows;
    kept.for_each(rows, [&](int64_t first, int64_t count) {
      stored.copy(first, parameter.tensor.narrow(0, first, count), /*widens=*/false);
    });
    if (added > 0 && kept.any(rows, added)) {
      fill_added_rows(parameter.tensor.narrow(0, rows, added), stored.last());
    }
  }
  stored.release();
  stored.name(known);
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

void initialise_vector(const at::Tensor& tensor, const arch::ParameterSpec& spec, double norm_offset) {
  switch (spec.role) {
    case arch::Role::kDecayRate:
      tensor.uniform_(0.01, 16).log_();
      return;
    case arch::Role::kNorm:
      tensor.fill_(1 - norm_offset);
      return;
    case arch::Role::kSink:
    case arch::Role::kExpertBias:
      tensor.normal_(0, spec.initial_std);
      return;
    case arch::Role::kCorrection:
    case arch::Role::kBias:
      tensor.zero_();
      return;
    default:
      tensor.fill_(1);
  }
}

void open(const BaseParameter& parameter, UnitKeeper* units) {
  if (units == nullptr) return;
  if (parameter.quantized) {
    for (const at::Tensor& part :
         {parameter.quantized->codes, parameter.quantized->scales, parameter.quantized->outer_scales}) {
      if (part.defined()) units->open(part);
    }
  } else {
    units->open(parameter.tensor);
  }
  if (parameter.quantizer) units->open(parameter.quantizer->log_steps_NG);
}

// Those of a run that went before, or where rounding would be.
void load_steps(const BaseParameter& parameter, const std::string& name, const weights::ModelFolder& folder,
                const std::string& where) {
  const at::Tensor& log_steps_NG = parameter.quantizer->log_steps_NG;
  const auto entry = folder.find(name);
  if (!entry) return ops::initialise_steps(parameter.tensor, *parameter.quantizer);
  log_steps_NG.copy_(stored_tensor({name, log_steps_NG.sizes().vec()}, /*added=*/0, *entry, where));
}

}  // namespace

void load_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture,
               const weights::ModelFolder& folder, UnitKeeper* units) {
  const std::string where = folder.path().string() + ": ";
  std::set<std::string> known;
  for (const BaseParameter& parameter : base) {
    open(parameter, units);
    if (parameter.quantized && architecture.quantized) {
      const auto tensors = copy_stored(*parameter.quantized, parameter.spec, architecture, folder, units);
      known.insert(tensors.begin(), tensors.end());
    } else {
      load_parameter(parameter, architecture, folder, where, units, known);
    }
    if (!parameter.quantizer) continue;
    const std::string steps = arch::stored_name(architecture.text_part, parameter.name_of_step_sizes);
    load_steps(parameter, steps, folder, where);
    known.insert(steps);
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

void initialise_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture,
                     UnitKeeper* units) {
  for (const BaseParameter& parameter : base) {
    open(parameter, units);
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
      initialise_vector(parameter.tensor, parameter.spec, architecture.norm_offset);
    }
    if (parameter.quantizer) ops::initialise_steps(parameter.tensor, *parameter.quantizer);
  }
}

}  // namespace fathom::model
