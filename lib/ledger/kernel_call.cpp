// A RecordFunction callback that keeps, per thread, which kernel operator of the CPU is open.
#include "ledger/kernel_call.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace fathom::ledger {
namespace {

// Zero-initialised and trivially destructible: allocations may happen before and after a thread's own constructors.
struct OpenCall {
  const at::RecordFunction* outermost;
  uint64_t number;
  const char* op;
};
thread_local OpenCall open_call;

// The verdict per operator, keyed by where the schema keeps its name: one address per operator and overload.
// Entries are written once and never removed; readers take no lock.
class Verdicts {
 public:
  bool of(const at::RecordFunction& function) {
    const char* name = function.name();
    auto hash = reinterpret_cast<uintptr_t>(name);
    hash ^= hash >> 15;
    for (size_t i = 0; i < kProbes; i++) {
      Entry& entry = entries_[(hash / 8 + i) % kSize];
      const char* seen = entry.name.load(std::memory_order_acquire);
      if (seen == name) return entry.kernel;
      if (!seen) return insert(entry, name, function.overload_name());
    }
    return is_kernel_operator(name, function.overload_name());
  }

 private:
  static constexpr size_t kSize = 8192, kProbes = 64;
  struct Entry {
    std::atomic<const char*> name{nullptr};
    bool kernel = false;
  };

  bool insert(Entry& entry, const char* name, const char* overload) {
    bool verdict = is_kernel_operator(name, overload);
    std::lock_guard guard(mutex_);
    if (!entry.name.load(std::memory_order_relaxed)) {
      entry.kernel = verdict;
      entry.name.store(name, std::memory_order_release);
    }
    return verdict;
  }

  std::mutex mutex_;
  std::array<Entry, kSize> entries_;
};

Verdicts& verdicts() {
  static auto* table = new Verdicts;  // outlives every thread
  return *table;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  OpenCall& call = open_call;
  if (!call.outermost && verdicts().of(function)) {
    call.outermost = &function;
    call.number++;
    call.op = function.name();
  }
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (open_call.outermost == &function) open_call.outermost = nullptr;
}

}  // namespace

bool is_kernel_operator(const char* name, const char* overload) {
  auto op = c10::Dispatcher::singleton().findOp({name, overload});
  if (!op || !op->hasSchema()) return false;
  if (op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return true;
  // Composite in name only: these wrap their number in a CPU tensor, or choose the kernel, and leave the work to it.
  // copy_ takes a buffer of its own when it transposes.
  return std::strstr(overload, "Scalar") || !std::strcmp(name, "aten::copy_");
}

void watch_kernel_calls() {
  static const bool once = [] {
    at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end).scopes({at::RecordScope::FUNCTION}));
    return true;
  }();
  (void)once;
}

KernelCall current_kernel_call() {
  // Workers first: what is open on them is only the at::empty that asks. The thread that entered the region is number
  // 0.
  if (at::get_thread_num() != 0 && at::in_parallel_region()) return {nullptr, 0, true, nullptr};
  if (open_call.outermost) return {&open_call, open_call.number, false, open_call.op};
  return {};
}

}  // namespace fathom::ledger
