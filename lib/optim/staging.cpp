// Turn by turn: the turn of a piece in a step says which slot it has.
#include "optim/staging.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "footprint/offload.h"

namespace fathom::optim {
Staging::Staging(std::vector<Updated> all, at::Device device, ledger::Ledger* ledger)
    : all_(std::move(all)), in_(device), out_(device) {
  int64_t largest = 0;
  for (size_t parameter = 0; parameter < all_.size(); ++parameter) {
    const int64_t elements = all_[parameter].parameter.numel();
    for (int64_t first = 0; first < elements; first += footprint::kPieceElements) {
      pieces_.push_back({parameter, first, std::min(footprint::kPieceElements, elements - first)});
      largest = std::max(largest, slot_bytes(pieces_.back()));
    }
  }
  if (pieces_.empty()) return;
  slots_.resize(static_cast<size_t>(footprint::staging_slots(largest, std::ssize(pieces_))));
  for (Slot& slot : slots_) {
    slot.bytes = at::empty({largest}, at::TensorOptions().device(device).dtype(at::kByte));
    if (ledger != nullptr) {
      ledger->claim(slot.bytes, memory::Component::kFunctionality, "optimizer states on their way");
    }
    in_.mark_computing(slot.stored);  // what had this memory before may be read still
  }
}

// The copies that are queued read and write what goes with this.
Staging::~Staging() {
  in_.drain();
  out_.drain();
}

int64_t Staging::slot_bytes(const Piece& piece) const {
  const Updated& whole = all_[piece.parameter];
  int64_t bytes = 0;
  for (size_t i = 0; i < whole.states.size(); ++i) {
    bytes +=
        round_up(divide_up(piece.n, whole.blocks[i]) * whole.states[i].element_size(), footprint::kStagingAlignment);
  }
  return bytes;
}

std::vector<Staging::Share> Staging::shares(const Piece& piece, const Slot& slot) const {
  const Updated& whole = all_[piece.parameter];
  std::vector<Share> shares;
  int64_t start = 0;
  for (size_t i = 0; i < whole.states.size(); ++i) {
    const at::Tensor& state = whole.states[i];
    const int64_t numbers = divide_up(piece.n, whole.blocks[i]), bytes = numbers * state.element_size();
    shares.push_back({state.view({-1}).narrow(0, piece.first / whole.blocks[i], numbers),
                      slot.bytes.narrow(0, start, bytes).view(state.scalar_type())});
    start += round_up(bytes, footprint::kStagingAlignment);
  }
  return shares;
}

void Staging::begin_step() {
  if (pieces_.empty()) return;
  updated_ = fetched_ = 0;
  ops::SideStream::Mark stored;  // what is read next was written in the step before
  out_.mark(stored);
  in_.wait_for(stored);
  fetch_ahead();
}

void Staging::fetch_ahead() {
  while (fetched_ < pieces_.size() && fetched_ < updated_ + slots_.size()) fetch(fetched_++);
}

void Staging::fetch(size_t turn) {
  Slot& slot = slot_of(turn);
  in_.wait_for(slot.stored);
  for (const Share& share : shares(pieces_[turn], slot)) in_.copy(share.on_device, share.on_host);
  in_.mark(slot.fetched);
}

void Staging::store(size_t turn) {
  Slot& slot = slot_of(turn);
  out_.mark_computing(slot.updated);
  out_.wait_for(slot.updated);
  for (const Share& share : shares(pieces_[turn], slot)) out_.copy(share.on_host, share.on_device);
  out_.mark(slot.stored);
}

// Where another parameter was expected, what was fetched for it is fetched again when its turn comes.
void Staging::expect(size_t parameter) {
  const auto next = pieces_.begin() + static_cast<std::ptrdiff_t>(updated_);
  TORCH_INTERNAL_ASSERT(next != pieces_.end(), "more was updated in a step than there is");
  if (next->parameter == parameter) return;
  const auto first =
      std::find_if(next, pieces_.end(), [&](const Piece& piece) { return piece.parameter == parameter; });
  TORCH_INTERNAL_ASSERT(first != pieces_.end(), "a parameter was updated twice in a step");
  std::rotate(next, first, first + footprint::pieces_of(all_[parameter].parameter.numel()));
  fetched_ = updated_;
}

void Staging::update(size_t index, const at::Tensor& gradient, const std::function<void(const Updated&)>& update) {
  const Updated& whole = all_[index];
  const at::Tensor numbers = whole.parameter.view({-1}), gradients = gradient.contiguous().view({-1});
  expect(index);
  while (updated_ < pieces_.size() && pieces_[updated_].parameter == index) {
    fetch_ahead();
    const Piece& piece = pieces_[updated_];
    Slot& slot = slot_of(updated_);
    Updated part{.parameter = numbers.narrow(0, piece.first, piece.n),
                 .gradient = gradients.narrow(0, piece.first, piece.n),
                 .states = {},
                 .blocks = whole.blocks,
                 .decays = whole.decays,
                 .place = whole.place,
                 .origin = whole.origin + piece.first};
    for (Share& share : shares(piece, slot)) part.states.push_back(std::move(share.on_device));
    in_.hold_computing(slot.fetched);
    update(part);
    store(updated_++);
  }
  fetch_ahead();
}

}  // namespace fathom::optim
