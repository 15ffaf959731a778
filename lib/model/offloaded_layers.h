// Frozen parameters of layers that lie in the host's memory and come to the device a layer at a time, the next one
// while a layer computes (as DeepSpeed's ZeRO-Infinity does: Rajbhandari et al. 2021, arXiv 2104.07857).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "footprint/offload.h"
#include "ledger/host_memory.h"
#include "ledger/ledger.h"
#include "model/parameters.h"
#include "ops/side_stream.h"

namespace fathom::model {

class OffloadedLayers final : public UnitKeeper {
 public:
  OffloadedLayers(at::Device device, ledger::MakesHostMemory host_memory, ledger::Ledger& ledger)
      : device_(device), host_memory_(std::move(host_memory)), ledger_(ledger), copies_(device) {}
  ~OffloadedLayers() override;
  OffloadedLayers(const OffloadedLayers&) = delete;
  OffloadedLayers& operator=(const OffloadedLayers&) = delete;

  // Those of a model that was made with this as its units: the frozen ones of its layers get memory of the host, all
  // others of the device, claimed as weights. Takes the slots that layers come to, claimed as functionality.
  void adopt(const std::vector<Parameter>& parameters);
  int64_t host_bytes() const;

  void before(int64_t unit) override;
  void after(int64_t unit, const at::Tensor& made) override;
  void idle_pass() override {}  // nobody else makes one
  void open(const at::Tensor& parameter) override;
  void close() override;
  void fill(const at::Tensor& parameter, const at::Tensor& from) override;
  std::vector<Kept> kept(const at::Tensor& parameter) const override;

 private:
  struct Slot {
    at::Tensor bytes;
    int64_t unit = 0;  // 0: none, as unit 0 is no layer
    ops::SideStream::Mark fetched, read;
  };
  struct Layer {
    at::Tensor on_host;  // bytes
    at::Tensor whole;    // likewise, on the device, without memory where it is in no slot
    Slot* slot = nullptr;
  };

  bool is_offloaded(int64_t unit) const { return layers_.contains(unit); }
  void fetch(int64_t unit);       // into a slot whose unit is not being read
  void make_ready(int64_t unit);  // what this thread computes next may read it
  void put(int64_t unit, Slot& slot);
  void reach_backward(int64_t unit);

  at::Device device_;
  ledger::MakesHostMemory host_memory_;
  ledger::Ledger& ledger_;
  ops::SideStream copies_;
  std::map<int64_t, Layer> layers_;  // by units
  std::map<const c10::StorageImpl*, int64_t> units_;
  std::array<Slot, footprint::kLayerSlots> slots_;
  int64_t computing_ = 0;  // the unit that is read now; 0: none yet
  int64_t open_ = 0;       // outside passes; 0: none
};

}  // namespace fathom::model
