// The ring of batches on the device.
#include "train/batch_ring.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::train {
namespace {

template <typename Number>
at::Tensor fill(const at::Tensor& slot, at::IntArrayRef shape, const std::vector<Number>& values) {
  at::Tensor view = slot.narrow(0, 0, c10::multiply_integers(shape)).view(shape);
  if (!values.empty()) view.copy_(at::from_blob(const_cast<Number*>(values.data()), shape, view.scalar_type()));
  return view;
}

struct Counted {
  std::vector<int64_t> rows, targets;
};

Counted counted(const data::Batch& batch) {
  Counted counted;
  for (size_t row = 0; row < batch.targets.size(); ++row) {
    if (batch.targets[row] == data::kIgnored) continue;
    counted.rows.push_back(static_cast<int64_t>(row));
    counted.targets.push_back(batch.targets[row]);
  }
  return counted;
}

// One for each token of a source that is none.
std::vector<uint8_t> padding_of(const data::Batch& batch) {
  std::vector<uint8_t> padding;
  for (const int64_t length : batch.source_lengths) {
    padding.insert(padding.end(), static_cast<size_t>(length), 0);
    padding.insert(padding.end(), static_cast<size_t>(batch.source_length - length), 1);
  }
  return padding;
}

// One for each token that is no padding.
std::vector<float> real_tokens_of(const data::Batch& batch) {
  std::vector<float> real;
  for (const int64_t length : batch.lengths) {
    real.insert(real.end(), static_cast<size_t>(length), 1);
    real.insert(real.end(), static_cast<size_t>(batch.length - length), 0);
  }
  return real;
}

// How many targets each row has; 1 of a row without any, by which its sum can be divided.
std::vector<float> target_counts_of(const data::Batch& batch) {
  std::vector<float> counts;
  for (auto row = batch.targets.begin(); row != batch.targets.end(); row += batch.length) {
    const int64_t count = batch.length - std::count(row, row + batch.length, data::kIgnored);
    counts.push_back(static_cast<float>(std::max<int64_t>(1, count)));
  }
  return counts;
}

}  // namespace

BatchRing::BatchRing(const BatchCapacity& capacity, const RingColumns& columns, at::Device device,
                     ledger::Ledger& ledger) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  ids_ = at::zeros({kSlots, capacity.tokens}, options);
  targets_ = at::full({kSlots, capacity.tokens}, data::kIgnored, options);
  ledger.claim(ids_, memory::Component::kFunctionality, "batch ring: ids");
  ledger.claim(targets_, memory::Component::kFunctionality, "batch ring: targets");
  if (capacity.source_tokens > 0) {
    source_ = at::zeros({kSlots, capacity.source_tokens}, options);
    hidden_ = at::zeros({kSlots, capacity.source_tokens}, options.dtype(at::kBool));
    ledger.claim(source_, memory::Component::kFunctionality, "batch ring: sources");
    ledger.claim(hidden_, memory::Component::kFunctionality, "batch ring: padding of sources");
  }
  if (columns.rows) {
    rows_ = at::zeros({kSlots, capacity.tokens}, options);
    ledger.claim(rows_, memory::Component::kFunctionality, "batch ring: rows that count");
  }
  if (columns.padding && !columns.documents) {
    real_ = at::ones({kSlots, capacity.tokens}, options.dtype(at::kFloat));
    ledger.claim(real_, memory::Component::kFunctionality, "batch ring: padding");
  }
  if (columns.sequences > 0) {
    of_rows_ = at::zeros({kSlots, kRowNumbers, columns.sequences}, options.dtype(at::kFloat));
    ledger.claim(of_rows_, memory::Component::kFunctionality, "batch ring: numbers of sequences");
  }
  if (!columns.documents) return;
  positions_ = at::zeros({kSlots, capacity.tokens}, options.dtype(at::kInt));
  ledger.claim(positions_, memory::Component::kFunctionality, "batch ring: positions");
  if (!device.is_cuda()) return;  // elsewhere attention reads the lengths on the host
  borders_ = at::zeros({kSlots, capacity.tokens + 1}, options.dtype(at::kInt));
  ledger.claim(borders_, memory::Component::kFunctionality, "batch ring: borders of documents");
}

std::shared_ptr<const ops::Documents> BatchRing::documents_of(const data::Batch& batch, int64_t slot) const {
  if (batch.document_lengths.empty()) return nullptr;
  auto documents = std::make_shared<ops::Documents>();
  documents->lengths = batch.document_lengths;
  const int64_t count = static_cast<int64_t>(documents->lengths.size());
  documents->longest = *std::max_element(documents->lengths.begin(), documents->lengths.end());
  std::vector<int32_t> positions, borders;
  if (!batch.ids.empty()) {
    for (const int64_t length : documents->lengths) {
      borders.push_back(static_cast<int32_t>(positions.size()));
      for (int32_t position = 0; position < length; ++position) positions.push_back(position);
    }
    borders.push_back(static_cast<int32_t>(positions.size()));
  }
  documents->positions_T = fill(positions_.select(0, slot), {batch.length}, positions);
  if (borders_.defined()) documents->offsets = fill(borders_.select(0, slot), {count + 1}, borders);
  return documents;
}

// The schedule tells the largest batch of a run, so that none is larger: were one all the same, the plan would have
// been of another run.
void BatchRing::check_room_for(const data::Batch& batch) const {
  const auto check = [](int64_t tokens, const at::Tensor& slots, const char* what) {
    const int64_t room = slots.defined() ? slots.size(1) : 0;
    if (tokens <= room) return;
    throw Error("a batch has " + format_count(tokens) + " " + what + ", and the run was planned for at most " +
                    format_count(room),
                "this is a mistake of fathom's: please report it with the config and the lengths of the data");
  };
  check(batch.rows * batch.length, ids_, "tokens");
  check(batch.rows * batch.source_length, source_, "tokens of sources");
}

DeviceBatch BatchRing::put(const data::Batch& batch) {
  check_room_for(batch);
  const int64_t slot = next_;
  next_ = (next_ + 1) % kSlots;
  const int64_t tokens = batch.rows * batch.length;
  const Counted picked = counted(batch);
  const int64_t count = batch.targets.empty() ? batch.target_count : static_cast<int64_t>(picked.rows.size());
  DeviceBatch result;
  result.target_count = batch.target_count;
  result.token_count = batch.token_count;
  result.inputs.documents = documents_of(batch, slot);
  result.inputs.ids_BS = fill(ids_.select(0, slot), {batch.rows, batch.length}, batch.ids);
  if (batch.source_length > 0) {
    const std::vector<int64_t> shape = {batch.rows, batch.source_length};
    result.inputs.source_BS = fill(source_.select(0, slot), shape, batch.source_ids);
    result.inputs.source_hidden_BS = fill(hidden_.select(0, slot), shape, padding_of(batch));
  }
  if (real_.defined()) {
    result.inputs.real_BS = fill(real_.select(0, slot), {batch.rows, batch.length}, real_tokens_of(batch));
  }
  if (of_rows_.defined()) {
    const at::Tensor numbers = of_rows_.select(0, slot);
    result.reference_B = fill(numbers.select(0, 0), {batch.rows}, batch.reference);
    result.lengths_B = fill(numbers.select(0, 1), {batch.rows}, target_counts_of(batch));
  }
  if (!rows_.defined() || count == tokens) {
    result.targets_N = fill(targets_.select(0, slot), {tokens}, batch.targets);
  } else {
    result.rows_N = fill(rows_.select(0, slot), {count}, picked.rows);
    result.targets_N = fill(targets_.select(0, slot), {count}, picked.targets);
  }
  return result;
}

}  // namespace fathom::train
