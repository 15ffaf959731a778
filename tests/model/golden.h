// Reads tests/model/golden/, which scripts/golden/llama.py and families.py write: small decoders and what transformers
// and PEFT compute from them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "arch/parameter_table.h"
#include "arch/read_folder.h"
#include "base/json_value.h"
#include "model/decoder.h"
#include "ops/cross_entropy.h"
#include "ops/head_loss.h"
#include "ops/scalar_type.h"
#include "weights/folder.h"

namespace fathom::model {

// Every folder that there is.
inline std::vector<std::string> golden_shapes() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FATHOM_SOURCE_DIR "/tests/model/golden")) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Golden {
  explicit Golden(const std::string& name) : folder(std::string(FATHOM_SOURCE_DIR) + "/tests/model/golden/" + name) {
    at::set_num_threads(1);  // the tensors are tiny: a second thread would only wait
    architecture = arch::read_architecture(folder);
    const Json expected = read_json(folder.path() / "expected.json");
    const bool encodes = expected.contains("decoder_ids");
    ids_BS = integers(expected[encodes ? "decoder_ids" : "ids"]);
    inputs = model::Inputs(ids_BS);
    if (encodes) {
      inputs.source_BS = integers(expected["ids"]);
      source_lengths = expected["lengths"].get<std::vector<int64_t>>();
      const at::Tensor lengths_B1 = at::tensor(source_lengths, at::kLong).unsqueeze(1);
      inputs.source_hidden_BS = at::arange(inputs.source_BS.size(1)).unsqueeze(0).ge(lengths_B1);
    }
    targets_BS = integers(expected["targets"]);
    losses = expected["losses"].get<std::vector<double>>();
    lora_losses = expected["lora_losses"].get<std::vector<double>>();
    if (encodes) {
      continuations = expected["continuations"].get<std::vector<std::vector<int64_t>>>();
    } else {
      continuation = expected["continuation"].get<std::vector<int64_t>>();
    }
    target_count = (targets_BS != ops::kIgnoredTarget).sum().item<int64_t>();
    lora.r = expected["lora"]["r"];
    lora.alpha = expected["lora"]["alpha"];
    const Json& modules = expected["lora"]["target_modules"];
    if (modules.is_string()) {
      lora.target_modules = {modules.get<std::string>()};
    } else {
      lora.target_modules = modules.get<std::vector<std::string>>();
    }
    lora.target_parameters = expected["lora"].value("target_parameters", std::vector<std::string>());
    lora.rank_stabilised = expected["lora"].value("use_rslora", false);
    const weights::SafetensorsFile file(folder.path() / "expected.safetensors");
    for (const weights::TensorInfo& info : file.tensors()) {
      tensors[info.name] =
          at::from_blob(const_cast<std::byte*>(file.data(info)), info.shape, ops::scalar_type(info.dtype)).clone();
    }
  }

  // The model with the folder's weights and, under LoRA, the expected file's adapters.
  Decoder make(ModelOptions options, bool with_lora) const { return make(options, with_lora, architecture); }
  Decoder make(ModelOptions options, bool with_lora, const arch::Architecture& of_architecture) const {
    if (with_lora) options.parameters.lora = lora;
    Decoder model(of_architecture, options);
    model.load(folder, 1);
    model.set_training(true);
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : model.parameters()) {
      const auto found = tensors.find("lora.weight." + parameter.name);
      if (found != tensors.end()) parameter.tensor.copy_(found->second);
    }
    return model;
  }

  // Through chunks of `chunk_rows` logits of the rows that count; 0: of all rows at once.
  at::Tensor loss(Decoder& model, int64_t chunk_rows = 0) const {
    const at::Tensor targets_T = targets_BS.view({-1});
    ops::LossTargets targets{{}, targets_T, static_cast<double>(target_count), chunk_rows};
    if (chunk_rows > 0) {
      targets.rows_N = (targets_T != ops::kIgnoredTarget).nonzero().view({-1});
      targets.targets_N = targets_T.index_select(0, targets.rows_N);
    }
    return model.loss(inputs, targets);
  }

  weights::ModelFolder folder;
  arch::Architecture architecture;
  model::Inputs inputs;
  at::Tensor ids_BS, targets_BS;        // of the decoder
  std::vector<int64_t> source_lengths;  // of each row, of an encoder and decoder
  int64_t target_count = 0;
  std::vector<double> losses, lora_losses;
  std::vector<int64_t> continuation;                // of the first row's first tokens
  std::vector<std::vector<int64_t>> continuations;  // of each row's source, for an encoder and decoder
  arch::LoraOptions lora;
  std::map<std::string, at::Tensor> tensors;

 private:
  static at::Tensor integers(const Json& rows) {
    at::Tensor result = at::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, at::kLong);
    int64_t* out = result.data_ptr<int64_t>();
    for (const Json& row : rows) {
      for (const Json& value : row) *out++ = value.get<int64_t>();
    }
    return result;
  }
};

// Gradients of all trained parameters by name; clears nothing.
inline std::map<std::string, at::Tensor> gradients_of(const Decoder& model) {
  std::map<std::string, at::Tensor> result;
  for (const Parameter& parameter : model.trained_parameters()) result[parameter.name] = parameter.tensor.grad();
  return result;
}

inline double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual.to(at::kDouble) - expected.to(at::kDouble)).norm() / expected.to(at::kDouble).norm()).item<double>();
}

inline double standard_deviation(const at::Tensor& tensor) {
  return ((tensor - tensor.mean()).norm() / std::sqrt(static_cast<double>(tensor.numel()))).item<double>();
}

}  // namespace fathom::model
