// Asks oneDNN, or fathom's own kernels, for the scratch memory of a matrix product: the operator is told to multiply
// matrices that have no bytes, and stopped when it allocates.
//
// oneDNN chooses blocks and buffers by shape, layout, threads and instruction set, and LibTorch's build hides its
// interface. But LibTorch lets oneDNN prepare the product, then allocates the scratch memory, and only then touches the
// matrices: an allocator that throws at that point has learned the size, after some 0.3 ms and without a product.
//
// A thread of its own asks and ends. A product that is not stopped gives the thread that asks a team of libgomp's
// threads; were that autograd's, which stays, libgomp would count more threads than processors from then on and let all
// of them sleep instead of spin between two parallel regions: 10 % of a LoRA step in BF16 without AMX.
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm_ops.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "phantom/kernel_scratch.h"

namespace at::native {
// aten/src/ATen/native/mkldnn/Matmul.cpp; the wheel ships the symbol but not its header.
TORCH_API void mkldnn_matmul(const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace fathom::phantom {
namespace {

// LibTorch multiplies up to so many products of elements by itself (checksize in the same file).
constexpr int64_t kMostWithoutOneDnn = int64_t{16} * 16 * 16;
// Where a dimension is 1 its stride says nothing, and oneDNN may see another layout than the one asked for.
constexpr int64_t kDegenerateMargin = 512;
// Of one block in oneDNN's products of matrices in BF16.
constexpr int64_t kMostRows = 256;
// Multiplied in some 20 ms even by a processor that does 10^9 operations a second.
constexpr int64_t kSampleSide = 256;

struct Asked {
  int64_t bytes;
};
thread_local bool asking = false;

// Stands before the process's allocator while a question is open; other threads do not notice.
class AskingAllocator final : public c10::Allocator {
 public:
  void stand_before(c10::Allocator* behind) { behind_ = behind; }
  c10::DataPtr allocate(size_t bytes) override {
    if (asking) throw Asked{static_cast<int64_t>(bytes)};
    return behind_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return behind_->raw_deleter(); }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    behind_->copy_data(destination, source, bytes);
  }

 private:
  c10::Allocator* behind_ = nullptr;
};

class Question {
 public:
  Question() : behind_(c10::GetCPUAllocator()) {
    static auto* allocator = new AskingAllocator;  // a thread may hold on to it
    allocator->stand_before(behind_);
    c10::SetCPUAllocator(allocator, /*priority=*/UINT8_MAX);
    asking = true;
  }
  ~Question() {
    asking = false;
    c10::SetCPUAllocator(behind_, /*priority=*/UINT8_MAX);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  c10::Allocator* behind_;
};

// Address space that reads as zeros and takes no memory until it is written, should oneDNN want no scratch after all.
class Emptiness {
 public:
  explicit Emptiness(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      throw Error("asking oneDNN for its scratch memory takes " + std::to_string(bytes) +
                      " bytes of address space, and this process may not have them",
                  "raise `ulimit -v` (no memory is used)");
    }
  }
  ~Emptiness() { munmap(data_, bytes_); }
  Emptiness(const Emptiness&) = delete;
  Emptiness& operator=(const Emptiness&) = delete;
  at::Tensor matrices(at::ScalarType type, int64_t batch, int64_t rows, int64_t columns, bool transposed) const {
    const std::array<int64_t, 2> strides =
        transposed ? std::array<int64_t, 2>{1, rows} : std::array<int64_t, 2>{columns, 1};
    const auto options = at::TensorOptions().dtype(type);
    if (batch == 0) return at::from_blob(data_, {rows, columns}, strides, options);
    return at::from_blob(data_, {batch, rows, columns}, {rows * columns, strides[0], strides[1]}, options);
  }

 private:
  size_t bytes_;
  void* data_;
};

// fathom's operators, found by name: so this room needs none of their code.
at::Tensor& own_mm(const at::Tensor& x, const at::Tensor& y, at::Tensor& result) {
  using Signature = at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fathom::mm", "out").typed<Signature>();
  return op.call(x, y, result);
}

at::Tensor& own_bmm(const at::Tensor& x, const at::Tensor& y, at::Tensor& result) {
  using Signature = at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fathom::bmm", "out").typed<Signature>();
  return op.call(x, y, result);
}

at::Tensor& own_addmm(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y) {
  using Signature = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("fathom::addmm_", "").typed<Signature>();
  return op.call(sum, x, y, 1);
}

// As the operator does it on the CPU, below autograd.
void multiply(const MatrixProduct& product, const at::Tensor& x, const at::Tensor& y, at::Tensor& result) {
  const at::AutoDispatchBelowADInplaceOrView no_gradients;
  const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  if (product.own) {
    product.batch > 0 ? own_bmm(x, y, result) : product.adds ? own_addmm(result, x, y) : own_mm(x, y, result);
  } else if (product.batch == 0 && product.adds) {
    at::_ops::addmm_out::redispatch(cpu, result, x, y, 1, 1, result);
  } else if (product.batch == 0) {
    at::_ops::mm_out::redispatch(cpu, x, y, result);
  } else {
    at::native::mkldnn_matmul(x, y, result, 0, 1);
  }
}

// None where oneDNN wanted no scratch: then it has multiplied and written the result.
std::optional<int64_t> ask_at_once(const MatrixProduct& product) {
  const int64_t largest = std::max({product.m * product.k, product.k * product.n, product.m * product.n});
  const Emptiness nothing(checked_multiply(std::max<int64_t>(product.batch, 1), 2 * largest, "size of a product"));
  const at::Tensor x = nothing.matrices(product.type, product.batch, product.m, product.k, product.x_transposed);
  const at::Tensor y = nothing.matrices(product.type, product.batch, product.k, product.n, product.y_transposed);
  at::Tensor result = nothing.matrices(product.type, product.batch, product.m, product.n, false);
  const Question question;
  try {
    multiply(product, x, y, result);
  } catch (const Asked& asked) {
    return asked.bytes;
  } catch (const c10::Error&) {
    return 0;  // this processor lacks the instructions that LibTorch wants for oneDNN's products of this type
  }
  return std::nullopt;
}

// A large product is asked for only if a small one in its layout was stopped: none may keep the processor for hours and
// fill the memory with its result. Thin ones, whose sample LibTorch would multiply by itself, cannot.
int64_t ask(const MatrixProduct& product) {
  MatrixProduct sample = product;
  sample.batch = std::min<int64_t>(product.batch, 1);
  for (int64_t* side : {&sample.m, &sample.k, &sample.n}) *side = std::min(*side, kSampleSide);
  if (sample != product && sample.m * sample.k * sample.n > kMostWithoutOneDnn && !ask_at_once(sample)) return 0;
  return ask_at_once(product).value_or(0);
}

// How many of something: less than `most`, and where oneDNN may choose other blocks. Every question costs the process
// about a millisecond and some hundred KiB, which oneDNN keeps: of long sequences, whose blocks repeat, none is asked.
std::vector<int64_t> fewer_than(int64_t most) {
  constexpr int64_t kShortest = 8, kLong = 1024;
  if (most < 2 || most > kLong) return {};
  std::vector<int64_t> counts = {most - 1};
  for (int64_t next = kShortest; next < most; next *= 2) counts.push_back(next - 1);
  return counts;
}

// The products that stand in this one's place in the smaller batches of a run. A matrix alone holds a row for each
// token: x, or both where x is transposed, as it is for the gradient of weights. Of a batch of matrices one side or
// two are a sequence's length: those of attention's formula, whose queries may be several times its keys, or fewer, as
// many whatever the keys are: those of a token that is written next.
std::vector<MatrixProduct> of_smaller_batches(const MatrixProduct& product) {
  std::vector<MatrixProduct> smaller;
  const auto shrink = [&](int64_t MatrixProduct::*length, int64_t MatrixProduct::*multiple) {
    for (const int64_t count : fewer_than(product.*length)) {
      MatrixProduct each = product;
      each.*length = count;
      if (multiple != nullptr) {
        if (product.*multiple < product.*length) smaller.push_back(each);
        each.*multiple = std::max<int64_t>(1, product.*multiple / product.*length) * count;
      }
      smaller.push_back(each);
    }
  };
  if (product.batch == 0) {
    shrink(product.x_transposed ? &MatrixProduct::k : &MatrixProduct::m, nullptr);
  } else if (product.x_transposed) {
    shrink(&MatrixProduct::m, &MatrixProduct::k);
  } else {
    shrink(product.y_transposed ? &MatrixProduct::n : &MatrixProduct::k, &MatrixProduct::m);
  }
  return smaller;
}

// Of AMX's tiles, and of oneDNN's products in FP16 by AVX512_FP16.
bool blocks_depend_on_every_side([[maybe_unused]] at::ScalarType type) {
#if defined(__x86_64__) && (!defined(__clang__) || __clang_major__ >= 16)  // earlier ones do not know the name
  if (type == at::kHalf && __builtin_cpu_supports("avx512fp16") != 0) return true;
#endif
  return multiplies_with_amx();
}

int64_t ask_lengths(const MatrixProduct& product) {
  int64_t most = ask(product);
  if (blocks_depend_on_every_side(product.type)) {
    for (const MatrixProduct& smaller : of_smaller_batches(product)) most = std::max(most, ask(smaller));
  }
  // Rows are shared out among all threads, or among a part of them where columns are too, and cut into equal blocks of
  // at most kMostRows, so a product of fewer rows may have larger blocks: that of the most rows which fill theirs
  // bounds the smaller batches of a run, too. A matrix alone that is transposed is a gradient's, and its rows are the
  // outputs of a layer: the same in every batch.
  if (product.x_transposed && product.batch == 0) return most;
  for (int64_t shares = 1; shares <= at::get_num_threads(); ++shares) {
    const int64_t rows = kMostRows * shares;
    if (at::get_num_threads() % shares != 0 || product.m <= rows || product.m % rows == 0) continue;
    MatrixProduct full = product;
    full.m = product.m / rows * rows;
    most = std::max(most, ask(full));
  }
  return most;
}

// The most threads among which so many matrices, or fewer, can be shared out whole.
int64_t shares_of_matrices(int64_t batch) {
  const int64_t threads = at::get_num_threads();
  int64_t shares = std::min(batch, threads);
  while (threads % shares != 0) --shares;
  return shares;
}

// Where the number of matrices is no multiple of the threads', several threads have parts of one, and buffers are of a
// part: those of fewer matrices, which threads have whole, are larger. With AMX, of fewer matrices each is cut for more
// threads, if there are no more matrices than these.
int64_t ask_layout(MatrixProduct product) {
  const int64_t threads = at::get_num_threads(), fewest = std::min(product.batch, threads + 1);
  std::vector<int64_t> fewer;
  if (product.batch % threads != 0) fewer.push_back(shares_of_matrices(product.batch));
  for (int64_t matrices = 1; matrices < fewest && blocks_depend_on_every_side(product.type); matrices *= 2) {
    fewer.push_back(matrices);
  }
  int64_t most = ask_lengths(product);
  for (const int64_t matrices : fewer) {
    product.batch = matrices;
    most = std::max(most, ask_lengths(product));
  }
  return most;
}

// Its own first: oneDNN may keep the first kernel for all of them, and the run asks for no other.
int64_t ask_all_layouts(MatrixProduct product) {
  int64_t most = ask_layout(product);
  for (const bool x_transposed : {false, true}) {
    for (const bool y_transposed : {false, true}) {
      product.x_transposed = x_transposed;
      product.y_transposed = y_transposed;
      most = std::max(most, ask_layout(product));
    }
  }
  return most == 0 ? 0 : most + kDegenerateMargin;
}

}  // namespace

int64_t matrix_product_scratch_bytes(const MatrixProduct& product) {
  const int64_t elements =
      checked_multiply(checked_multiply(std::max<int64_t>(product.batch, 1), product.m, "size of a product"),
                       checked_multiply(product.k, product.n, "size of a product"), "size of a product");
  if (elements <= kMostWithoutOneDnn) return 0;
  static std::mutex mutex;
  static auto* answers = new std::map<std::pair<int, MatrixProduct>, int64_t>;
  const std::lock_guard lock(mutex);
  const std::pair question(at::get_num_threads(), product);
  if (const auto known = answers->find(question); known != answers->end()) return known->second;
  const bool degenerate = product.m == 1 || product.k == 1 || product.n == 1;
  const auto ask_alone = [&] {
    at::init_num_threads();  // a new thread has as many as there are processors
    return degenerate ? ask_all_layouts(product) : ask_layout(product);
  };
  return (*answers)[question] = std::async(std::launch::async, ask_alone).get();
}

}  // namespace fathom::phantom
