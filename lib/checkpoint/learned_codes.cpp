// Rounds as ops::fake_quantized_linear does, with the same operators, so that what is read back is what was trained.
#include "checkpoint/learned_codes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "arch/parameter_table.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "checkpoint/model_files.h"
#include "ops/linear/fake_quantized_linear.h"
#include "ops/quantized/fake_quantize.h"
#include "ops/rows.h"
#include "ops/scalar_type.h"
#include "quant/folder_tensors.h"
#include "quant/int4.h"

namespace fathom::checkpoint {
namespace {

using weights::SafetensorsFile;
using weights::TensorInfo;
using weights::TensorSource;

struct Stored {
  const SafetensorsFile* file;
  const TensorInfo* info;
  at::Tensor tensor() const {
    void* bytes = const_cast<std::byte*>(file->data(*info));
    return at::from_blob(bytes, info->shape, at::TensorOptions(ops::scalar_type(info->dtype)));
  }
};

// The adapter's before the model's.
std::optional<Stored> find(const LearnedWeights& learned, const std::string& spelled) {
  const std::string name = arch::name_in_decoder(spelled);
  if (learned.adapter != nullptr) {
    const TensorInfo* info = learned.adapter->find(name_in_adapter(*learned.adapter, name));
    if (info != nullptr) return Stored{learned.adapter, info};
  }
  const auto entry = learned.model.find(
      arch::found_name(name, [&](const std::string& each) { return learned.model.find(each).has_value(); }));
  return entry ? std::optional(Stored{entry->file, entry->info}) : std::nullopt;
}

std::vector<std::string> names_of_steps(const LearnedWeights& learned) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (arch::is_name_of_step_sizes(name)) names.push_back(name);
  };
  if (learned.adapter == nullptr) {
    for (const std::string& name : learned.model.names()) add(name);
    return names;
  }
  for (const TensorInfo& tensor : learned.adapter->tensors()) {
    if (tensor.name.starts_with(kAdapterPrefix)) add(tensor.name.substr(std::strlen(kAdapterPrefix)));
  }
  return names;
}

// "….up_proj.weight" of "….up_proj.int4_log_steps".
std::string weight_of_steps(const std::string& name) { return name.substr(0, name.rfind('.')) + ".weight"; }

// The format in which the weight has these steps.
std::optional<quant::Scheme> scheme_of(const Stored& steps, const TensorInfo& weight_ND) {
  const std::vector<int64_t>&shape = steps.info->shape, &matrix = weight_ND.shape;
  const bool fits = steps.info->dtype == DType::kF32 && shape.size() == 2 && matrix.size() == 2 &&
                    shape[0] == matrix[0] && shape[1] > 0 && matrix[1] % shape[1] == 0;
  if (!fits) return std::nullopt;
  if (steps.info->name.ends_with("int4_log_steps")) return quant::int4_of_group(matrix[1] / shape[1]);
  return shape[1] == 1 ? std::optional(quant::Scheme::kInt8) : std::nullopt;
}

quant::Scheme checked_scheme(const LearnedWeights& learned, const std::string& steps_name) {
  const Stored steps = *find(learned, steps_name);
  const auto weight_ND = find(learned, weight_of_steps(steps_name));
  const auto scheme = weight_ND ? scheme_of(steps, *weight_ND->info) : std::nullopt;
  if (scheme) return *scheme;
  throw Error(steps.file->path().string() + ": the steps '" + steps.info->name + "' do not fit a weight of the model",
              "is this the base it was trained on?");
}

// Codes and scales of one weight, made at the first call for one of its tensors.
class LearnedMatrix {
 public:
  LearnedMatrix(LearnedWeights learned, std::string name, quant::Scheme scheme, DType dtype)
      : learned_(learned), name_(std::move(name)), scheme_(scheme), dtype_(dtype) {}

  void read(size_t tensor, std::byte* destination, int64_t bytes) {
    if (sources_.empty()) make();
    const TensorSource& source = sources_[tensor];
    if (source.data != nullptr) {
      std::memcpy(destination, source.data, static_cast<size_t>(bytes));
    } else {
      source.read(destination, bytes);
    }
  }
  // For the next weight.
  void forget() {
    sources_.clear();
    codes_.reset();
    scales_.reset();
  }

 private:
  at::Tensor weight() const {
    at::Tensor weight_ND = find(learned_, name_)->tensor();
    const std::string module = name_.substr(0, name_.rfind('.'));
    const auto a_RD = find(learned_, module + ".lora_A.weight"), b_NR = find(learned_, module + ".lora_B.weight");
    if (!a_RD || !b_NR) return weight_ND;
    return ops::merged_weight(weight_ND, {a_RD->tensor(), b_NR->tensor(), learned_.scaling});
  }

  void make() {
    const at::NoGradGuard no_gradients;
    at::Tensor weight_ND = weight();
    if (!ops::has_kernel(weight_ND)) weight_ND = weight_ND.to(at::kFloat);
    const at::Tensor log_steps_NG = find(learned_, arch::name_of_step_sizes(scheme_, name_))->tensor();
    const ops::LearnedCodes made = ops::learned_codes(weight_ND, {scheme_, log_steps_NG});
    codes_ = quant::is_int4(scheme_) ? packed(made.codes_ND) : made.codes_ND;
    scales_ = made.steps_NG;
    const auto* codes = static_cast<const std::byte*>(codes_.const_data_ptr());
    const auto* scales = static_cast<const std::byte*>(scales_.const_data_ptr());
    sources_ = quant::sources_of_matrix(name_, {scheme_, weight_ND.size(0), weight_ND.size(1), codes, scales, nullptr},
                                        dtype_);
  }

  // Two codes to a byte, the first in the low half (quant/int4.h).
  static at::Tensor packed(const at::Tensor& codes_ND) {
    const at::Tensor pairs = codes_ND.view({-1, 2}).sub(quant::kSmallestInt4Code).to(at::kByte);
    return pairs.select(1, 1).mul(16).add_(pairs.select(1, 0));
  }

  const LearnedWeights learned_;
  const std::string name_;
  const quant::Scheme scheme_;
  const DType dtype_;
  at::Tensor codes_, scales_;
  std::vector<TensorSource> sources_;
};

}  // namespace

std::optional<quant::Scheme> learned_scheme(const LearnedWeights& learned) {
  std::optional<quant::Scheme> scheme;
  for (const std::string& name : names_of_steps(learned)) {
    const quant::Scheme found = checked_scheme(learned, name);
    if (scheme && *scheme != found) {
      throw Error(learned.model.path().string() + ": steps of " + std::string(quant::name_of(*scheme)) + " and of " +
                  std::string(quant::name_of(found)) + " in one model");
    }
    scheme = found;
  }
  return scheme;
}

std::vector<TensorSource> learned_sources(const std::vector<TensorSource>& sources, const LearnedWeights& learned,
                                          quant::Scheme scheme) {
  const quant::FolderFormat format = quant::format_of(scheme);
  std::vector<TensorSource> result;
  const auto current = std::make_shared<std::shared_ptr<LearnedMatrix>>();  // the one whose codes are in memory
  for (const TensorSource& source : sources) {
    if (arch::is_name_of_step_sizes(source.name)) continue;
    const bool rounded =
        source.name.ends_with(".weight") && find(learned, arch::name_of_step_sizes(scheme, source.name));
    if (!rounded) {
      result.push_back(source);
      continue;
    }
    const auto matrix = std::make_shared<LearnedMatrix>(learned, source.name, scheme, source.dtype);
    size_t index = 0;
    for (const quant::StoredTensor& tensor :
         quant::tensors_of_matrix(format, source.name, source.shape[0], source.shape[1])) {
      TensorSource& made = result.emplace_back(TensorSource{tensor.name, tensor.dtype, tensor.shape, {}, nullptr});
      made.read = [matrix, current, index](std::byte* destination, int64_t bytes) {
        if (*current && *current != matrix) (*current)->forget();
        *current = matrix;
        matrix->read(index, destination, bytes);
      };
      index += 1;
    }
  }
  return result;
}

}  // namespace fathom::checkpoint
