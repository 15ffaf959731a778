// Generation: prefill, then a token at a time.
#include "train/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/split_mix.h"
#include "ops/autocast.h"

namespace fathom::train {
namespace {

std::vector<float> to_host(const at::Tensor& logits_V) {
  const at::Tensor host = logits_V.to(at::kFloat).cpu().contiguous();
  return {host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel()};
}

at::Tensor row_of(const std::vector<int64_t>& ids, at::Device device) {
  return at::tensor(ids, at::kLong).view({1, -1}).to(device);
}

// The prompt; for an encoder and decoder the token that the decoder starts from, with the prompt as its source, ended
// as sources are.
model::Inputs first_inputs(const arch::Architecture& architecture, const std::vector<int32_t>& prompt,
                           at::Device device) {
  std::vector<int64_t> ids(prompt.begin(), prompt.end());
  if (!architecture.encoder) return row_of(ids, device);
  const std::vector<int64_t>& ends = architecture.eos_token_ids;
  if (!ends.empty() && ids.back() != ends.front()) ids.push_back(ends.front());
  model::Inputs inputs = row_of({architecture.encoder->decoder_start_token_id}, device);
  inputs.source_BS = row_of(ids, device);
  return inputs;
}

}  // namespace

int32_t choose_token(const std::vector<float>& logits_V, const GenerationOptions& options, double uniform) {
  // Nothing compares with NaN: searching and sorting need it gone.
  const bool numbers = std::none_of(logits_V.begin(), logits_V.end(), [](float logit) { return std::isnan(logit); });
  const auto largest = std::max_element(logits_V.begin(), logits_V.end());
  if (!numbers || largest == logits_V.end() || !std::isfinite(*largest)) {
    throw Error("the model's logits are not finite", "look at the model's weights, or compute with dtype=float32");
  }
  if (options.temperature <= 0) return static_cast<int32_t>(largest - logits_V.begin());
  std::vector<int32_t> order(logits_V.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits_V[a] > logits_V[b]; });
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size())) order.resize(options.top_k);
  std::vector<double> weights;
  for (int32_t id : order) weights.push_back(std::exp((logits_V[id] - *largest) / options.temperature));
  double kept = 0;
  const double limit = options.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < limit)) kept += weights[count++];
  double rest = uniform * kept;
  for (size_t i = 0; i < count; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[count - 1];
}

std::vector<int32_t> generate(model::Decoder& model, const std::vector<int32_t>& prompt,
                              const GenerationOptions& options, const std::function<bool(int32_t)>& on_token) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (prompt.empty()) throw Error("the prompt is empty and the tokenizer adds no BOS", "give a prompt");
  const arch::Architecture& architecture = model.architecture();
  if (!architecture.relative && options.max_new_tokens > architecture.max_position_embeddings - length) {
    throw Error("the prompt of " + std::to_string(length) + " tokens and " + std::to_string(options.max_new_tokens) +
                    " new ones exceed the model's " + std::to_string(architecture.max_position_embeddings) +
                    " positions",
                "shorten the prompt or lower --max-new-tokens");
  }
  const at::NoGradGuard no_gradients;
  model.set_training(false);
  const at::Device device = model.options().device;
  const at::ScalarType computed = ops::ComputeScope(device, model.parameters().front().tensor.scalar_type()).dtype();
  model::Inputs inputs = first_inputs(architecture, prompt, device);
  model::KeyValueCache cache(architecture, 1, inputs.ids_BS.size(1) + options.max_new_tokens, device, computed);
  std::vector<int32_t> output;
  SplitMix64 random(options.seed);
  while (static_cast<int64_t>(output.size()) < options.max_new_tokens) {
    const at::Tensor logits_BV = model.forward(inputs, cache);
    const int32_t id = choose_token(to_host(logits_BV.select(0, 0)), options, random.uniform());
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) break;
    output.push_back(id);
    if (on_token && !on_token(id)) break;
    inputs = row_of({id}, device);
  }
  return output;
}

}  // namespace fathom::train
