// Optimizer states that lie in the host's memory pass through a few slots of the device's, a piece of a parameter at a
// time (Ren et al. 2021, arXiv 2101.06840, update on the host instead): pieces to come are copied to the device, and
// those that were updated back, by streams of their own while the device computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "ledger/ledger.h"
#include "ops/side_stream.h"
#include "optim/updated.h"

namespace fathom::optim {

class Staging {
 public:
  // all: parameters whose states are on the host, in the order in which a step is expected to come to them. Takes the
  // slots, on the device, and claims them as functionality. device: a CPU copies at once, for tests.
  Staging(std::vector<Updated> all, at::Device device, ledger::Ledger* ledger);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Begins to copy what the step will need first.
  void begin_step();
  // update: is called for each piece, whose states are on the device and are changed there. index: in `all`.
  void update(size_t index, const at::Tensor& gradient, const std::function<void(const Updated&)>& update);
  // Until what was updated is in the host's memory.
  void wait() const { out_.synchronize(); }

 private:
  struct Piece {
    size_t parameter = 0;
    int64_t first = 0, n = 0;  // elements
  };
  // A state's share of a piece: bytes of a tensor, and where they lie in a slot.
  struct Share {
    at::Tensor on_host, on_device;
  };
  struct Slot {
    at::Tensor bytes;
    ops::SideStream::Mark fetched, updated, stored;
  };

  int64_t slot_bytes(const Piece& piece) const;
  std::vector<Share> shares(const Piece& piece, const Slot& slot) const;
  Slot& slot_of(size_t turn) { return slots_[turn % slots_.size()]; }
  void expect(size_t parameter);
  void fetch_ahead();
  void fetch(size_t turn);
  void store(size_t turn);

  std::vector<Updated> all_;
  std::vector<Piece> pieces_;  // in the order in which a step comes to them: that of the step before
  std::vector<Slot> slots_;
  ops::SideStream in_, out_;
  // Pieces of this step that were updated, and that were fetched.
  size_t updated_ = 0, fetched_ = 0;
};

}  // namespace fathom::optim
