// The phantom device as LibTorch sees it: allocator, guard, generator, hooks, and its registration.
#include "phantom/device.h"

#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>

#include "phantom/backend.h"

namespace fathom::phantom {
namespace {

using c10::kPrivateUse1;

const c10::Device kDevice(kPrivateUse1, 0);
constexpr int64_t kCpuGeneratorStateBytes = 5056;  // the state is a tensor of that size there
std::atomic<ledger::Ledger*> current_ledger = nullptr;

// What a DataPtr's context points to. The ledger that was told of the block is told of its end, unless it is gone.
struct Block {
  ledger::Ledger* ledger;
};

// Every block's address: LibTorch takes null for a tensor that is not ready; here a kernel that reads it faults at
// once.
void* nowhere() {
  static void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!bytes) return {nullptr, kDevice};
    auto* block = new Block{current_ledger.load(std::memory_order_acquire)};
    if (block->ledger) block->ledger->on_allocate(block, static_cast<int64_t>(bytes), ledger::current_kernel_call());
    return {nowhere(), block, &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}

 private:
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    if (block->ledger && block->ledger == current_ledger.load(std::memory_order_acquire))
      block->ledger->on_free(block, ledger::current_kernel_call());
    delete block;
  }
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
};

// A seed and an offset, so that code which saves and restores them runs; no number is ever drawn.
struct PhantomGenerator final : c10::GeneratorImpl {
  PhantomGenerator() : GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  void set_current_seed(uint64_t seed) override { seed_ = seed; }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { return seed_; }
  void set_state(const c10::TensorImpl&) override {}
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return at::empty({kCpuGeneratorStateBytes}, at::TensorOptions().device(kDevice).dtype(at::kByte)).getIntrusivePtr();
  }
  PhantomGenerator* clone_impl() const override {
    auto* copy = new PhantomGenerator;
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

 private:
  uint64_t seed_ = 0, offset_ = 0;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const auto* generator = new at::Generator(at::make_generator<PhantomGenerator>());
    return *generator;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<PhantomGenerator>(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

// When this library is loaded: autograd counts the devices once, at the first backward of the process, on whichever
// device.
const c10::impl::DeviceGuardImplRegistrar guard_registration(kPrivateUse1, new Guard);

void register_backend() {
  c10::register_privateuse1_backend("phantom");
  c10::SetAllocator(kPrivateUse1, &allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_fallbacks();
  register_kernels();
  register_meta_rules();
  register_bypassing_operators();
  register_autocast();
  ledger::watch_kernel_calls();
}

}  // namespace

c10::Allocator& allocator() {
  static auto* instance = new Allocator;  // tensors may outlive every static
  return *instance;
}

c10::Storage new_storage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, allocator().allocate(bytes), &allocator(),
                      /*resizable=*/true);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  c10::DataPtr old = impl->set_data_ptr(allocator().allocate(bytes));
  impl->set_nbytes(bytes);
}

at::Device device() {
  static std::once_flag once;
  std::call_once(once, register_backend);
  return kDevice;
}

ledger::Ledger* set_ledger(ledger::Ledger* ledger) {
  return current_ledger.exchange(ledger, std::memory_order_acq_rel);
}

}  // namespace fathom::phantom
