// The CPU allocator: counts exactly what is asked for, keeps freed memory for reuse, refuses beyond a budget.
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "ledger/ledger.h"
#include "memory/memory_pool.h"

namespace fathom::ledger {
namespace {

// Small blocks live apart, so that a long-lived number does not pin a hole between large ones.
constexpr size_t kLargeBytes = size_t{256} << 10;

class CpuAllocator final : public c10::Allocator {
 public:
  Ledger& ledger() { return ledger_; }
  void set_budget(int64_t bytes) {
    std::lock_guard guard(mutex_);
    budget_bytes_ = bytes;
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? take(bytes) : nullptr;
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  static CpuAllocator& instance() {
    static auto* allocator = new CpuAllocator;  // tensors may outlive every static
    return *allocator;
  }

 private:
  void* take(size_t bytes) {
    void* data = nullptr;
    {
      std::lock_guard guard(mutex_);
      // Compared without adding, so that an absurd request cannot wrap around.
      bool fits = !budget_bytes_ || bytes <= static_cast<size_t>(std::max<int64_t>(budget_bytes_ - live_bytes_, 0));
      if (fits) data = (bytes < kLargeBytes ? small_ : large_).take(bytes);
      if (data) {
        live_bytes_ += static_cast<int64_t>(bytes);
        largest_use_ = std::max(largest_use_, small_.used_bytes() + large_.used_bytes());
      }
    }
    if (!data) refuse(bytes);
    ledger_.on_allocate(data, static_cast<int64_t>(bytes), current_kernel_call());
    return data;
  }

  static void give_back(void* data) {
    if (!data) return;
    CpuAllocator& self = instance();
    self.ledger_.on_free(data, current_kernel_call());  // first: afterwards the address may be another's
    std::lock_guard guard(self.mutex_);
    self.live_bytes_ -= static_cast<int64_t>(memory::MemoryPool::requested_bytes(data));
    memory::MemoryPool::owner(data)->give_back(data);
    self.bound_kept_memory();
  }

  // What is kept and what is in use stay, together, near the most that was ever in use.
  void bound_kept_memory() {
    size_t bound = memory::most_kept_and_used(largest_use_);
    size_t used = small_.used_bytes() + large_.used_bytes(), kept = small_.kept_bytes() + large_.kept_bytes();
    if (used + kept <= bound) return;
    size_t other = used + small_.kept_bytes();
    large_.trim(bound > other ? bound - other : 0);
  }

  [[noreturn]] void refuse(size_t bytes) {
    int64_t live, budget;
    {
      std::lock_guard guard(mutex_);
      live = live_bytes_;
      budget = budget_bytes_;
    }
    int64_t asked = bytes > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bytes);
    ledger_.on_refusal(asked, current_kernel_call());
    auto shown = [](int64_t n) { return format_bytes(n) + " (" + format_count(n) + " bytes)"; };
    C10_THROW_ERROR(OutOfMemoryError,
                    "asked for " + shown(asked) + " of the CPU while " + shown(live) + " are live" +
                        (budget ? ", and the budget (memory_budget) is " + shown(budget) : std::string()));
  }

  std::mutex mutex_;
  memory::MemoryPool small_{size_t{16} << 20, 2 * memory::MemoryPool::kAlignment, /*huge_pages=*/false};
  memory::MemoryPool large_{size_t{1} << 30, size_t{64} << 10, /*huge_pages=*/true};
  int64_t live_bytes_ = 0, budget_bytes_ = 0;
  size_t largest_use_ = 0;
  Ledger ledger_;
};

}  // namespace

Ledger& install_cpu(int64_t budget_bytes) {
  CpuAllocator& allocator = CpuAllocator::instance();
  allocator.set_budget(budget_bytes);
  static const bool once = [&] {
    watch_kernel_calls();
    c10::SetCPUAllocator(&allocator, /*priority=*/UINT8_MAX);
    return true;
  }();
  (void)once;
  return allocator.ledger();
}

}  // namespace fathom::ledger
