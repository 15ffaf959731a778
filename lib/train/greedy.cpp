// A first pass over what all prompts have, then one token of every row at a time.
#include "train/greedy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "ledger/ledger.h"
#include "ops/autocast.h"

namespace fathom::train {
namespace {

using Ids = std::vector<int64_t>;

// A tensor on the device, filled where there is something to fill it with.
template <typename Number>
at::Tensor filled(const at::Tensor& tensor, const std::vector<Number>& values) {
  if (!values.empty()) {
    const at::TensorOptions host = tensor.options().device(at::kCPU);
    tensor.copy_(at::from_blob(const_cast<Number*>(values.data()), tensor.sizes(), host));
  }
  return tensor;
}

// The rows on the host: what each reads next, and what it has answered.
class Rows {
 public:
  Rows(const arch::Architecture& architecture, const Prompts& prompts)
      : architecture_(architecture), prompts_(prompts), answers_(prompts.rows.size()), ended_(prompts.rows.size()) {}

  // What every row reads first, row after row.
  Ids first() const {
    Ids ids;
    for (size_t row = 0; row < answers_.size(); ++row) {
      for (int64_t position = 0; position < prompts_.shape.first; ++position) ids.push_back(read_at(row, position));
    }
    return ids;
  }
  // The likeliest tokens behind `length` read ones, and what is read next.
  Ids next(int64_t length, const int64_t* likeliest) {
    Ids ids;
    for (size_t row = 0; row < answers_.size(); ++row) {
      if (length >= prompt_length(row)) take(row, likeliest[row]);
      ids.push_back(read_at(row, length));
    }
    return ids;
  }
  bool all_ended() const {
    return !ended_.empty() && std::all_of(ended_.begin(), ended_.end(), [](char ended) { return ended != 0; });
  }
  std::vector<std::vector<int32_t>> take_answers() { return std::move(answers_); }

 private:
  int64_t prompt_length(size_t row) const { return architecture_.encoder ? 1 : std::ssize(prompts_.rows[row]); }
  // Of a row that has ended any token will do.
  int64_t read_at(size_t row, int64_t position) const {
    if (position < prompt_length(row)) {
      return architecture_.encoder ? architecture_.encoder->decoder_start_token_id
                                   : prompts_.rows[row][static_cast<size_t>(position)];
    }
    return answers_[row].empty() ? 0 : answers_[row].back();
  }
  void take(size_t row, int64_t id) {
    if (ended_[row] != 0) return;
    const Ids& stops = prompts_.stop_ids;
    const bool stops_here = std::find(stops.begin(), stops.end(), id) != stops.end();
    if (!stops_here) answers_[row].push_back(static_cast<int32_t>(id));
    ended_[row] = stops_here || std::ssize(answers_[row]) == prompts_.most ? 1 : 0;
  }

  const arch::Architecture& architecture_;
  const Prompts& prompts_;
  std::vector<std::vector<int32_t>> answers_;
  std::vector<char> ended_;
};

// What an encoder reads, padded on the right.
void add_source(model::Inputs& inputs, const Prompts& prompts, at::Device device) {
  Ids ids;
  std::vector<uint8_t> hidden;
  for (const std::vector<int32_t>& row : prompts.rows) {
    ids.insert(ids.end(), row.begin(), row.end());
    hidden.insert(hidden.end(), row.size(), 0);
    ids.resize(hidden.size() + static_cast<size_t>(prompts.shape.source_length) - row.size());
    hidden.resize(ids.size(), 1);
  }
  const std::vector<int64_t> sizes = {prompts.shape.rows, prompts.shape.source_length};
  inputs.source_BS = filled(at::empty(sizes, at::TensorOptions(device).dtype(at::kLong)), ids);
  inputs.source_hidden_BS = filled(at::empty(sizes, at::TensorOptions(device).dtype(at::kBool)), hidden);
}

}  // namespace

std::vector<std::vector<int32_t>> continue_greedily(model::Decoder& model, const Prompts& prompts) {
  const at::NoGradGuard no_gradients;
  model.set_training(false);
  const schedule::AnswerShape& shape = prompts.shape;
  const at::Device device = model.options().device;
  const at::ScalarType computed = ops::ComputeScope(device, model.parameters().front().tensor.scalar_type()).dtype();
  Rows rows(model.architecture(), prompts);
  model::Inputs inputs;
  at::Tensor read;
  {
    const ledger::ClaimScope claim(memory::Component::kFunctionality);
    read = at::empty({shape.rows * shape.first}, at::TensorOptions(device).dtype(at::kLong));
    if (shape.source_length > 0) add_source(inputs, prompts, device);
  }
  inputs.ids_BS = filled(read.view({shape.rows, shape.first}), rows.first());
  model::KeyValueCache cache(model.architecture(), shape.rows, shape.positions, device, computed);
  while (true) {
    const at::Tensor likeliest_B = model.forward(inputs, cache).argmax(-1);
    const bool last = cache.length == shape.positions;
    Ids next;
    if (!prompts.rows.empty()) next = rows.next(cache.length, likeliest_B.cpu().const_data_ptr<int64_t>());
    if (last) return rows.take_answers();
    // The passes that nobody waits for are left out but for the last two: the last takes the most memory, the one
    // before it reads a part of the cache, which kernels may copy.
    if (prompts.rows.empty() || rows.all_ended()) model::Decoder::leave_out(cache, shape.positions - 2);
    inputs.source_BS.reset();
    inputs.source_hidden_BS.reset();
    inputs.ids_BS = filled(read.narrow(0, 0, shape.rows).view({shape.rows, 1}), next);
  }
}

}  // namespace fathom::train
