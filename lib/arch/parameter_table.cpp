// Matches modules by the ends of their names, and lists what follows.
#include "arch/parameter_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "arch/adapter_targets.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/bytes.h"
#include "base/error.h"

namespace fathom::arch {
namespace {

constexpr std::string_view kWeight = ".weight", kInt8 = ".int8_log_steps", kInt4 = ".int4_log_steps";
constexpr const char* kParameters = "number of parameters";

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<ParameterSpec>& specs,
                                 const Architecture& architecture) {
  constexpr const char* kNorm = "norm";
  std::string known = "name ";
  std::set<std::string> named = {kNorm};
  bool ends_all_norms = true;
  for (const ParameterSpec& spec : specs) {
    if (spec.role != Role::kEmbedding && spec.role != Role::kPositions && spec.role != Role::kNorm) continue;
    const std::string last = last_part(spec.module());
    if (named.insert(last).second) known += last + ", ";
    if (spec.role == Role::kNorm) ends_all_norms = ends_all_norms && last.ends_with(kNorm);
  }
  if (ends_all_norms) known.append(kNorm).append(" (all norms), ");
  known += stores_transposed(architecture) ? "or lm_head" : "lm_head, or a projection without an adapter";
  throw UsageError("modules_to_save: '" + name + "' matches no module with weights of its own", known);
}

// Names of the parameters that are trained whole beside adapters.
std::set<std::string> saved_parameters(const std::vector<ParameterSpec>& specs, const Architecture& architecture,
                                       const std::vector<std::string>& modules,
                                       const std::map<std::string, int64_t>& ranks) {
  std::set<std::string> saved;
  for (const std::string& name : modules) {
    bool matches = false;
    const auto match = [&](const std::string& module, const std::string& parameter) {
      if (name.empty() || !module.ends_with(name)) return;
      if (ranks.contains(parameter)) {
        throw UsageError("modules_to_save: '" + name + "' matches " + module + ", which gets an adapter",
                         "take it out of modules_to_save or of target_modules");
      }
      matches = true;
      saved.insert(parameter);
    };
    for (const ParameterSpec& spec : specs) {
      const bool is_module = spec.role != Role::kExperts && spec.role != Role::kRouter &&
                             spec.role != Role::kExpertBias && spec.role != Role::kConvolution &&
                             spec.role != Role::kDecayRate && spec.role != Role::kDecayBias &&
                             spec.role != Role::kSink && !spec.is_constant();
      if (is_module) match(name_in_whole(architecture.text_part, spec.module()), spec.name);
      if (architecture.tie_word_embeddings && spec.role == Role::kEmbedding) match("lm_head", spec.name);
    }
    if (!matches) refuse_unknown(name, specs, architecture);
  }
  return saved;
}

// One for each row of a projection, or for each of its groups.
ParameterRow step_sizes_of(const ParameterSpec& projection, quant::Scheme scheme) {
  const int64_t rows = projection.shape[0];
  const int64_t each = quant::layout_of(scheme, rows, projection.shape[1]).scales / rows;
  ParameterRow row;
  row.spec = {name_of_step_sizes(scheme, projection.name), {rows, each}, Role::kStepSizes, projection.layer};
  row.trained = true;
  return row;
}

// Of a stack of experts: the A of all one below the other, the columns of their Bs in turn.
ParameterRow adapter_of(const ParameterSpec& matrix, const std::string& module, Role role, int64_t rank) {
  const bool first = role == Role::kAdapterA;
  const int64_t ranks = checked_multiply(rank, matrix.experts, kParameters);
  std::vector<int64_t> shape = {matrix.shape[0] / matrix.experts, ranks};
  if (first) shape = {ranks, matrix.shape[1]};
  ParameterRow row;
  row.spec = {module + (first ? ".lora_A.weight" : ".lora_B.weight"), shape, role, matrix.layer};
  row.spec.experts = matrix.experts;
  row.trained = true;
  return row;
}

template <typename Counts>
int64_t sum_of_elements(const std::vector<ParameterRow>& rows, const Counts& counts) {
  int64_t sum = 0;
  for (const ParameterRow& row : rows) {
    if (counts(row)) sum = checked_add(sum, row.spec.elements(), kParameters);
  }
  return sum;
}

}  // namespace

bool ParameterRow::of_base() const {
  return spec.role != Role::kStepSizes && spec.role != Role::kAdapterA && spec.role != Role::kAdapterB;
}

int64_t ParameterRow::code_bytes() const {
  return codes ? quant::layout_of(*codes, spec.shape[0], spec.shape[1]).bytes() : 0;
}

int64_t ParameterRow::value_bytes() const {
  return codes ? 0 : checked_multiply(spec.elements(), size_of(dtype), spec.name);
}

int64_t ParameterTable::count() const {
  return sum_of_elements(rows, [](const ParameterRow&) { return true; });
}

int64_t ParameterTable::trained_count() const {
  return sum_of_elements(rows, [](const ParameterRow& row) { return row.trained; });
}

int64_t ParameterTable::constant_count() const {
  return sum_of_elements(rows, [](const ParameterRow& row) { return row.spec.is_constant(); });
}

int64_t ParameterTable::trained_base_count() const {
  return sum_of_elements(rows, [](const ParameterRow& row) { return row.trained && row.of_base(); });
}

int64_t ParameterTable::count_of(Role role) const {
  return sum_of_elements(rows, [role](const ParameterRow& row) { return row.spec.role == role; });
}

int64_t ParameterTable::coded_count() const {
  return sum_of_elements(rows, [](const ParameterRow& row) { return row.codes.has_value(); });
}

bool ParameterTable::trains(std::string_view name) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const ParameterRow& row) { return row.trained && row.spec.name == name; });
}

bool ParameterTable::trains_head() const {
  const auto last =
      std::find_if(rows.begin(), rows.end(), [](const ParameterRow& row) { return row.spec.role == Role::kHead; });
  const auto head = last != rows.end() ? last : rows.begin();
  return head->trained;
}

ParameterTable parameter_table(const Architecture& architecture, const ParameterSettings& settings) {
  const std::vector<ParameterSpec> specs = parameter_specs(architecture);
  std::map<std::string, int64_t> ranks;
  std::set<std::string> saved;
  if (settings.lora) {
    ranks = adapter_ranks(architecture, specs, *settings.lora);
    saved = saved_parameters(specs, architecture, settings.lora->modules_to_save, ranks);
  }
  const bool trains_all = !settings.lora && !settings.base_scheme;
  ParameterTable table;
  std::vector<ParameterRow> adapters;
  for (const ParameterSpec& spec : specs) {
    const bool projection = spec.role == Role::kProjection;
    ParameterRow row;
    row.spec = spec;
    row.dtype = spec.stays_fp32() ? DType::kF32 : settings.dtype;
    row.trained = (trains_all && !spec.is_constant()) || saved.contains(spec.name);
    if (projection && saved.contains(spec.name) && stored_parts(architecture, spec).front().transposed) {
      throw UsageError("modules_to_save: the matrix of " + spec.module() + " is stored transposed",
                       "name it in target_modules, which gives it an adapter");
    }
    const bool coded = settings.base_scheme && spec.may_be_coded_in(*settings.base_scheme);
    if (coded && !row.trained) row.codes = settings.base_scheme;
    if (const auto rank = ranks.find(spec.name); rank != ranks.end()) {
      row.adapter = adapter_module(spec, ranks);
      row.adapter_rank = rank->second;
      for (const Role role : {Role::kAdapterA, Role::kAdapterB}) {
        adapters.push_back(adapter_of(spec, row.adapter, role, row.adapter_rank));
      }
    }
    table.rows.push_back(std::move(row));
    if (projection && settings.fake_scheme) table.rows.push_back(step_sizes_of(spec, *settings.fake_scheme));
  }
  std::move(adapters.begin(), adapters.end(), std::back_inserter(table.rows));
  return table;
}

std::string name_of_step_sizes(quant::Scheme scheme, const std::string& weight) {
  return weight.substr(0, weight.size() - kWeight.size()).append(quant::is_int4(scheme) ? kInt4 : kInt8);
}

bool is_name_of_step_sizes(std::string_view name) { return name.ends_with(kInt8) || name.ends_with(kInt4); }

}  // namespace fathom::arch
