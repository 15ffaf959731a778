// Goes over the folder's weights one by one, into shards whose headers are written first.
#include "checkpoint/quantize_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "arch/architecture.h"
#include "arch/read_folder.h"
#include "arch/read_text_part.h"
#include "arch/storage_schemes.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "checkpoint/model_files.h"
#include "checkpoint/staged_folder.h"
#include "footprint/quantized_part_size.h"
#include "model/stored_parameters.h"
#include "ops/quantized/quantized_rows.h"
#include "ops/scalar_type.h"
#include "quant/folder_tensors.h"
#include "quant/format_names.h"
#include "quant/left_out.h"
#include "weights/folder.h"
#include "weights/safetensors_writer.h"

namespace fathom::checkpoint {
namespace {

using weights::ModelFolder;
using weights::TensorSource;

// Of INT4 with the model's groups.
quant::NamedFormat find_target(const std::string& format, const arch::Architecture& architecture) {
  quant::NamedFormat target = quant::find_format(format);
  if (target.scheme && quant::is_int4(*target.scheme)) target.scheme = arch::int4_scheme(architecture);
  return target;
}

// A weight of the source, and the tensors in its place.
struct Item {
  std::string name;
  std::vector<TensorSource> tensors;               // without content
  const arch::ParameterSpec* quantized = nullptr;  // set: becomes codes
  const arch::ParameterSpec* read_back = nullptr;  // set: it is in codes now
};

std::vector<TensorSource> outline(const std::vector<quant::StoredTensor>& tensors) {
  std::vector<TensorSource> sources;
  sources.reserve(tensors.size());
  for (const quant::StoredTensor& tensor : tensors) sources.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  return sources;
}

class Quantizer {
 public:
  Quantizer(const QuantizeRequest& request)
      : request_(request),
        folder_(request.source),
        architecture_(arch::read_architecture(folder_)),
        specs_(arch::parameter_specs(architecture_)),
        target_(find_target(request.format, architecture_)) {
    report_.format =
        target_.scheme ? std::string(quant::name_of(*target_.scheme)) : std::string(dtype_name(target_.dtype));
    refuse_inside(request_.out, folder_.path());
    if (target_.scheme && architecture_.quantized) {
      throw Error(folder_.path().string() + " is quantized already, in " +
                      std::string(quant::name_of(architecture_.quantized->scheme)),
                  "name the folder before it was quantized: rounding twice loses more");
    }
    const char* why = arch::why_not_stored_in_codes(architecture_);
    if (why != nullptr && !architecture_.quantized) {
      throw Error(folder_.path().string() + " " + why + ", and no format of `quantize` is for such a model",
                  "train on it with load_in_4bit: true or load_in_8bit: true, which quantize them as they are read");
    }
    list_items();
    report_.bytes_before = folder_.total_bytes();
  }

  QuantizeReport run() {
    const std::vector<std::vector<Item>> shards = divide();
    StagedFolder out(request_.out, "the quantized model", report_.bytes_after);
    out.add("config.json", format_json(config()));
    out.add_copies(folder_.path(), {"generation_config.json"});
    out.add_copies(folder_.path(), tokenizer_files(folder_.path()));
    Json index = {{"metadata", {{"total_size", report_.bytes_after}}}, {"weight_map", Json::object()}};
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i, shards.size());
      write_shard(out.path() / name, shards[i]);
      out.add_written(name);
      for (const Item& item : shards[i]) {
        for (const TensorSource& tensor : item.tensors) index["weight_map"][tensor.name] = name;
      }
    }
    if (shards.size() > 1) out.add("model.safetensors.index.json", format_json(index));
    out.publish();
    return std::move(report_);
  }

 private:
  // All weights of the decoder, and what stands beside a text part, as it is: what else a decoder does not read is left
  // behind.
  void list_items() {
    std::vector<std::string> listed;
    for (const arch::ParameterSpec& spec : specs_) {
      if (is_in_codes(spec) && !target_.scheme) {
        items_.push_back(item_in_codes(spec, listed));
        continue;
      }
      Item item{arch::stored_name(architecture_.text_part, spec.name), {}};
      if (spec.may_be_coded() && target_.scheme) {
        item.quantized = &spec;
        item.tensors = outline(
            quant::tensors_of_matrix(quant::format_of(*target_.scheme), item.name, spec.shape[0], spec.shape[1]));
      } else {
        item.name = model::spelling_in(folder_, arch::stored_spellings(architecture_, spec)).front().name;
        item.tensors = {plain_outline(item.name)};
      }
      listed.push_back(item.name);
      items_.push_back(std::move(item));
    }
    for (const std::string& name : arch::other_tensors(architecture_, folder_).names) {
      const weights::TensorInfo& info = *entry_of(name).info;
      items_.push_back({name, {{name, info.dtype, info.shape, {}}}});
    }
    std::sort(listed.begin(), listed.end());
    for (const std::string& name : folder_.names()) {
      if (std::binary_search(listed.begin(), listed.end(), name) || model::is_ignored(name, architecture_)) continue;
      throw Error(folder_.path().string() + ": tensor " + name + " has no place in " + architecture_.family,
                  "check that config.json belongs to the weights");
    }
    for (const Item& item : items_)
      report_.bytes_after = checked_add(report_.bytes_after, bytes_of(item.tensors), "size");
  }

  Item item_in_codes(const arch::ParameterSpec& spec, std::vector<std::string>& listed) const {
    Item item{arch::stored_name(architecture_.text_part, spec.name), {}};
    item.read_back = &spec;
    for (const arch::StoredPart& part : arch::stored_parts(architecture_, spec)) {
      item.tensors.push_back({part.name, target_.dtype, part.shape, {}});
    }
    for (const arch::StoredPart& part : model::spelling_in(folder_, arch::spellings_in_codes(architecture_, spec))) {
      for (auto& tensor :
           quant::tensors_of_matrix(*architecture_.quantized, part.name, part.rows, spec.shape[1], part.matrices())) {
        listed.push_back(std::move(tensor.name));
      }
    }
    return item;
  }

  bool is_in_codes(const arch::ParameterSpec& spec) const {
    return architecture_.quantized && spec.may_be_coded_in(architecture_.quantized->scheme);
  }

  ModelFolder::Entry entry_of(const std::string& name) const {
    const auto entry = folder_.find(name);
    if (entry) return *entry;
    throw Error(folder_.path().string() + ": there is no tensor " + name,
                "check that config.json belongs to the weights");
  }

  TensorSource plain_outline(const std::string& name) const {
    const weights::TensorInfo& info = *entry_of(name).info;
    const bool casts = !target_.scheme && is_floating(info.dtype);
    return {name, casts ? target_.dtype : info.dtype, info.shape, {}};
  }

  std::vector<std::vector<Item>> divide() {
    std::vector<std::vector<Item>> shards(1);
    int64_t used = 0;
    for (Item& item : items_) {
      const int64_t bytes = bytes_of(item.tensors);
      if (used > 0 && used + bytes > request_.shard_bytes) {
        shards.emplace_back();
        used = 0;
      }
      used += bytes;
      shards.back().push_back(std::move(item));
    }
    return shards;
  }

  Json config() const {
    Json config = folder_.config();
    for (Json* object : {&config, &arch::text_config_of(config)}) object->erase("quantization_config");
    if (!target_.scheme) return config_as_stored(std::move(config), target_.dtype);
    const Json said = quant::quantization_config(*target_.scheme);
    config["quantization_config"] = architecture_.text_part ? quant::beside_other_parts(said) : said;
    return config;
  }

  void write_shard(const std::filesystem::path& path, const std::vector<Item>& items) {
    std::vector<TensorSource> all;
    for (const Item& item : items) all.insert(all.end(), item.tensors.begin(), item.tensors.end());
    weights::SafetensorsWriter writer(path, all);
    for (const Item& item : items) {
      if (item.quantized != nullptr) {
        write_quantized(item, writer);
      } else if (item.read_back != nullptr) {
        write_read_back(item, writer);
      } else {
        write_plain(item, writer);
      }
      if (request_.progress) request_.progress(read_bytes_, report_.bytes_before);
    }
    writer.finish();
  }

  void release(const ModelFolder::Entry& entry) {
    read_bytes_ += entry.info->bytes;
    entry.file->release(*entry.info);
  }

  [[noreturn]] void refuse_numbers(const std::string& name, const std::string& what) const {
    throw Error(folder_.path().string() + ": tensor " + name + " " + what,
                target_.scheme ? "its weights are not those of a sound model: get the folder again"
                               : "choose bf16 or fp32, whose range is wider, or get the folder again");
  }

  void write_quantized(const Item& item, weights::SafetensorsWriter& writer) {
    const ModelFolder::Entry entry = entry_of(item.name);
    const at::Tensor stored_ND =
        model::stored_tensor(*item.quantized, /*added=*/0, entry, folder_.path().string() + ": ");
    const ops::QuantizedMatrix matrix =
        ops::empty_quantized_matrix(*target_.scheme, stored_ND.size(0), stored_ND.size(1), at::kCPU, {});
    ops::quantize(matrix, [&](int64_t first, const at::Tensor& part_RD) {
      part_RD.copy_(stored_ND.narrow(0, first, part_RD.size(0)));
    });
    MatrixError error = error_of(item.quantized->name, stored_ND, matrix);
    if (!std::isfinite(error.noise)) refuse_numbers(item.name, "holds a NaN or an infinity");
    const float* outer = matrix.outer_scales.defined() ? matrix.outer_scales.const_data_ptr<float>() : nullptr;
    const quant::MatrixBytes bytes = {*target_.scheme,
                                      matrix.rows,
                                      matrix.columns,
                                      static_cast<const std::byte*>(matrix.codes.const_data_ptr()),
                                      static_cast<const std::byte*>(matrix.scales.const_data_ptr()),
                                      outer};
    for (const TensorSource& tensor : quant::sources_of_matrix(item.name, bytes, entry.info->dtype))
      writer.write(tensor);
    report_.quantized_values += error.values;
    report_.quantized_bytes += bytes_of(item.tensors);
    report_.matrices.push_back(std::move(error));
    release(entry);
  }

  void write_read_back(const Item& item, weights::SafetensorsWriter& writer) {
    const arch::ParameterSpec& spec = *item.read_back;
    const ops::QuantizedMatrix matrix =
        ops::empty_quantized_matrix(architecture_.quantized->scheme, spec.shape[0], spec.shape[1], at::kCPU, {});
    for (const std::string& name : model::copy_stored(matrix, spec, architecture_, folder_)) {
      read_bytes_ += folder_.find(name)->info->bytes;
    }
    const std::vector<arch::StoredPart> parts = arch::stored_parts(architecture_, spec);
    for (size_t i = 0; i < parts.size(); ++i) {
      TensorSource tensor = item.tensors[i];
      tensor.read = [&](std::byte* destination, int64_t) {
        read_back(matrix, parts[i],
                  at::from_blob(destination, tensor.shape, at::TensorOptions().dtype(ops::scalar_type(target_.dtype))));
      };
      writer.write(tensor);
    }
    report_.other_bytes += bytes_of(item.tensors);
  }

  // A stack of experts, which folders of gpt-oss have the other way round, or a matrix of its own.
  void read_back(const ops::QuantizedMatrix& matrix, const arch::StoredPart& part, const at::Tensor& out) const {
    const int64_t experts = out.dim() == 3 ? out.size(0) : 1, rows = part.rows / experts;
    const int64_t step = footprint::quantized_part_rows(rows, matrix.columns, /*on_gpu=*/false);
    for (int64_t expert = 0; expert < experts; ++expert) {
      at::Tensor out_ND = out.dim() == 3 ? out.select(0, expert) : out;
      if (part.transposed) out_ND = out_ND.t();
      for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first), row = part.first_row + expert * rows + first;
        cast(part.name, ops::dequantize_rows(matrix, row, count), out_ND.narrow(0, first, count));
      }
    }
  }

  void cast(const std::string& name, const at::Tensor& from, const at::Tensor& to) const {
    to.copy_(from);
    if (from.numel() > 0 && !std::isfinite(to.abs().amax().item<double>())) {
      refuse_numbers(name, "holds numbers that are not finite in " + std::string(dtype_name(target_.dtype)));
    }
  }

  void write_plain(const Item& item, weights::SafetensorsWriter& writer) {
    const ModelFolder::Entry entry = entry_of(item.name);
    TensorSource tensor = item.tensors[0];
    if (tensor.dtype == entry.info->dtype) {
      tensor.data = entry.data();
    } else {
      tensor.read = [&](std::byte* destination, int64_t) {
        const auto options = [](DType dtype) { return at::TensorOptions().dtype(ops::scalar_type(dtype)); };
        const int64_t values = entry.info->bytes / size_of(entry.info->dtype);
        const at::Tensor from =
            at::from_blob(const_cast<std::byte*>(entry.data()), {values}, options(entry.info->dtype));
        const at::Tensor to = at::from_blob(destination, {values}, options(tensor.dtype));
        constexpr int64_t kPiece = 1 << 20;
        for (int64_t first = 0; first < values; first += kPiece) {
          const int64_t count = std::min(kPiece, values - first);
          cast(item.name, from.narrow(0, first, count), to.narrow(0, first, count));
        }
      };
    }
    writer.write(tensor);
    report_.other_bytes += bytes_of(item.tensors);
    release(entry);
  }

  const QuantizeRequest& request_;
  const ModelFolder folder_;
  const arch::Architecture architecture_;
  const std::vector<arch::ParameterSpec> specs_;
  const quant::NamedFormat target_;
  std::vector<Item> items_;
  int64_t read_bytes_ = 0;
  QuantizeReport report_;
};

}  // namespace

QuantizeReport quantize_folder(const QuantizeRequest& request) { return Quantizer(request).run(); }

}  // namespace fathom::checkpoint
