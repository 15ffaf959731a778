// Records every allocation of one device with what claims it, and labels the recorded stretch afterwards.
//
// Allocators call on_allocate/on_free (any thread); the program marks phases and segments and claims storages; `label`
// then walks the events since the last call and gives every block its component, from the moment of its allocation.
// The labelling is one function for the CPU, CUDA and both phantoms.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/kernel_call.h"
#include "memory/component.h"
#include "memory/timeline.h"

namespace fathom::ledger {

class Ledger {
 public:
  Ledger();
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // ---- called by the allocator. key: what identifies the block while it lives (the DataPtr's context).
  // call: current_kernel_call() where kernel scratch is told apart (the CPU and the phantom device), else empty.
  void on_allocate(const void* key, int64_t bytes, const KernelCall& call = {});
  void on_free(const void* key, const KernelCall& call = {});
  // The allocator is about to refuse: keeps what is alive (`refusal`), before the exception releases it.
  void on_refusal(int64_t bytes, const KernelCall& call = {});

  // ---- called by the program.
  void begin_phase(memory::Phase phase);  // ends a phase that is open: phases do not nest
  void end_phase();
  // A checkpointed segment: recomputation starts; its backward starts. What recomputation made and is then alive is an
  // activation.
  void begin_recomputation();
  void begin_segment_backward();
  // The block under `tensor` belongs to `component`, from its allocation to its release. Undefined tensors are ignored.
  // name: shown in tables of the largest blocks ("model.layers.0.mlp.up_proj.weight").
  void claim(const at::Tensor& tensor, memory::Component component, std::string_view name = "");

  // Blocks taken from now on belong to this part of the model ("model.layers.3.mlp"), until the next call or the next
  // phase. Only names in timelines and errors depend on it.
  void enter(std::string_view module);
  std::string entered() const;
  std::optional<memory::Phase> phase() const;  // of the last begin_phase, ended or not

  // ---- after a step (or a load, an evaluation, a save): labels what happened since the last call, adds it to
  // memory(), and returns the stretch alone. Blocks that are still alive stay known.
  memory::Memory label();
  const memory::Memory& memory() const;  // of everything labelled so far
  // Forgets what was labelled so far: memory(), peak_timeline(), refusal(). Blocks that are alive stay known.
  void forget();
  // Of the stretch with the largest peak among those that held a backward phase; empty before there was one.
  const memory::Timeline& peak_timeline() const;
  int64_t live_bytes() const;  // now, kernel scratch included
  int64_t changes() const;     // allocations and releases since this ledger was made

  // ---- work that comes again and again within a step: a micro-batch, a group of parameters updated together.
  using Work = std::function<void()>;
  // kind: the same number only for work whose requests are the same.
  using Repeater = std::function<void(uint64_t kind, const Work& work)>;
  // Does the work, or has the repeater do it.
  void repeat(uint64_t kind, const Work& work);
  // A dry run's, which may leave work out; empty: none.
  void set_repeater(Repeater repeater);

  // One event of the last labelled stretch, for timelines and comparisons.
  struct Event {
    int64_t bytes = 0;  // > 0 taken, < 0 given back
    memory::Component component = memory::Component::kTemporaryBuffers;
    bool kernel_scratch = false;
    memory::Phase phase = memory::Phase::kLoad;
    bool in_phase = false;
  };
  const std::vector<Event>& last_events() const;

  // What the allocator could not give, and what was alive then.
  struct Refusal {
    int64_t bytes = 0;   // asked for
    std::string module;  // where in the model, and which operator; empty if unknown
    std::string op;
    std::optional<memory::Phase> phase;
    // Blocks of a forward pass whose backward had not begun count as activations.
    memory::ComponentBytes live;
    struct Holding {
      int64_t bytes = 0;
      memory::Component component = memory::Component::kTemporaryBuffers;
      std::string what;  // the tensor's name, else the module and the operator
    };
    std::vector<Holding> blocks;  // largest first
  };
  // The last one; nullopt if there was none.
  std::optional<Refusal> refusal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While alive, blocks that this thread allocates are claimed by `component` (autocast's copies of weights, for one).
class ClaimScope {
 public:
  explicit ClaimScope(memory::Component component);
  ~ClaimScope();
  ClaimScope(const ClaimScope&) = delete;
  ClaimScope& operator=(const ClaimScope&) = delete;

 private:
  int previous_;
};

// Makes fathom's allocator LibTorch's CPU allocator for the rest of the process and returns its ledger. The allocator
// counts, keeps freed memory for reuse, and refuses to go beyond `budget_bytes` of live bytes (0: no limit) with
// c10::OutOfMemoryError. Blocks taken inside one call of an operator with a CPU kernel, or on a worker thread of a
// parallel region, are kernel scratch. Call before the first tensor is made; later calls only change the budget.
Ledger& install_cpu(int64_t budget_bytes = 0);

}  // namespace fathom::ledger
