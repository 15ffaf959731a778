// A RecordFunction callback with inputs and outputs, installed for as long as something is counted.
#include "play/arithmetic_count.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ledger/kernel_call.h"
#include "ops/attention/attention_pairs.h"
#include "ops/scalar_type.h"
#include "play/step_sums.h"

namespace fathom::play {
namespace {

std::mutex one_at_a_time;
StepSums sums;
std::atomic<int64_t> matrix_nanoseconds, attention_nanoseconds;
std::atomic<c10::DispatchKey> kernels_of;
std::mutex failure_lock;
OperatorListener* listener = nullptr;
const plan::OperatorTimes* device_times = nullptr;
std::exception_ptr failure;  // the first; LibTorch only logs what its callbacks throw
thread_local const at::RecordFunction* outermost = nullptr;
thread_local const at::RecordFunction* announced_attention = nullptr;  // which said what its operators compute
thread_local int64_t announced_flops = 0, moved_by_arguments = 0;
thread_local std::chrono::steady_clock::time_point started, attention_started;

enum class Kind { kMatrix, kAttention, kOther };

constexpr bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_kernel(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return op.hasKernelForDispatchKey(kernels_of.load(std::memory_order_relaxed)) ||
         ledger::is_kernel_operator(name.name.c_str(), name.overload_name.c_str());
}

// What a tensor takes in memory; a dimension that is expanded is there once.
int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return 0;
  int64_t elements = 1;
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    if (tensor.stride(dimension) != 0) elements *= tensor.size(dimension);
  }
  return elements * static_cast<int64_t>(tensor.itemsize());
}

int64_t bytes_of(const c10::IValue& value) {
  int64_t bytes = 0;
  if (value.isTensor()) {
    bytes = bytes_of(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  }
  return bytes;
}

int64_t size(const c10::IValue& tensor, int64_t dimension) { return tensor.toTensor().size(dimension); }

// The argument of that name.
const c10::IValue& argument(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs,
                            const char* name) {
  const auto index = schema.argumentIndexWithName(name);
  if (!index) throw Error(schema.name() + " has no argument " + name, "this is a defect of the program");
  return inputs[static_cast<size_t>(*index)];
}

// LibTorch's and fathom's (ops/linear/matrix_product.h).
bool is_matrix_product(std::string_view name) {
  return is_any(name, {"aten::mm", "aten::addmm", "aten::addmm_", "fathom::mm", "fathom::addmm", "fathom::addmm_",
                       "aten::_scaled_mm"});
}

// The position of a product's first factor.
size_t first_factor(std::string_view name) {
  return name.ends_with("addmm") || name.ends_with("addmm_") || name.starts_with("aten::baddbmm") ? 1 : 0;
}

// Of products of two matrices, or of batches of them.
std::optional<plan::ProductSides> product_sides(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  const size_t at = first_factor(name);
  if (is_matrix_product(name))
    return plan::ProductSides{size(inputs[at], 0), size(inputs[at], 1), size(inputs[at + 1], 1)};
  if (is_any(name, {"aten::bmm", "aten::baddbmm", "aten::baddbmm_", "fathom::bmm"})) {
    return plan::ProductSides{size(inputs[at], 1), size(inputs[at], 2), size(inputs[at + 1], 2), size(inputs[at], 0)};
  }
  return std::nullopt;
}

int64_t flops_of(const plan::ProductSides& sides) { return 2 * sides.batch * sides.m * sides.k * sides.n; }

// query_BHSE, key_BKSE; all keys and queries of equal length see half of the pairs under a causal mask.
int64_t fused_attention_flops(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  constexpr int64_t kForward = 2, kBackward = 5;  // products
  const at::Tensor query_BHSE = argument(schema, inputs, "query").toTensor();
  const at::Tensor key_BKSE = argument(schema, inputs, "key").toTensor();
  const int64_t length = query_BHSE.size(2), keys = key_BKSE.size(2);
  const bool causal = argument(schema, inputs, "is_causal").toBool();
  const int64_t pairs = causal && length == keys ? length * (length + 1) / 2 : length * keys;
  const int64_t products = schema.name().ends_with("_backward") ? kBackward : kForward;
  return products * 2 * query_BHSE.size(0) * query_BHSE.size(1) * pairs * query_BHSE.size(3);
}

// What is read, and what is written in place or by an out argument. Views move nothing.
int64_t traffic_of_arguments(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  const std::string_view name = schema.name();
  const bool overwrites = is_any(name, {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
                                        "aten::bernoulli_", "aten::random_"});
  const bool gathers = is_any(name, {"aten::index_select", "aten::embedding"});  // reads as much as it writes
  if (name == "aten::index_add_") {  // of what it adds to, the rows that it adds
    return bytes_of(argument(schema, inputs, "index")) + 3 * bytes_of(argument(schema, inputs, "source"));
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size() && i < schema.arguments().size(); ++i) {
    const c10::Argument& each = schema.arguments()[i];
    const bool written = each.alias_info() != nullptr && each.alias_info()->isWrite();
    const bool read = !each.is_out() && !(i == 0 && (overwrites || gathers));
    bytes += bytes_of(inputs[i]) * ((read ? 1 : 0) + (written ? (gathers ? 2 : 1) : 0));
  }
  return bytes;
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

bool moves_nothing(const c10::FunctionSchema& schema) {
  return is_view(schema) || schema.name().starts_with("aten::empty") || schema.name().starts_with("aten::new_empty") ||
         is_any(schema.name(), {"aten::resize_", "aten::set_"});
}

Kind kind_of(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  if (is_matrix_product(name)) return Kind::kMatrix;
  if (is_any(name, {"aten::bmm", "aten::baddbmm", "aten::baddbmm_", "fathom::bmm"})) return Kind::kAttention;
  const bool fused = name.starts_with("aten::_scaled_dot_product_") && schema.argumentIndexWithName("is_causal");
  const bool limited = name.starts_with("aten::_flash_attention_") || name.starts_with("aten::_efficient_attention_");
  return fused || limited ? Kind::kAttention : Kind::kOther;
}

at::ScalarType type_of_first(c10::ArrayRef<const c10::IValue> inputs) {
  for (const c10::IValue& input : inputs) {
    if (input.isTensor() && input.toTensor().defined()) return input.toTensor().scalar_type();
    if (input.isTensorList() && !input.toTensorList().empty()) return input.toTensorVector().front().scalar_type();
  }
  return at::kFloat;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Of fused attention, over rows [B, H, S, E], or over documents end to end [T, H, E] whose longest is told.
plan::AttentionSides attention_sides(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  const at::Tensor query = argument(schema, inputs, "query").toTensor();
  plan::AttentionSides sides;
  if (query.dim() == 4) {
    const bool heads_first = std::string_view(schema.name()).starts_with("aten::_scaled_dot_product_");
    sides = {query.size(0), query.size(heads_first ? 1 : 2), query.size(heads_first ? 2 : 1), query.size(3)};
  } else {
    const int64_t length = std::max<int64_t>(1, argument(schema, inputs, "max_q").toInt());
    sides = {std::max<int64_t>(1, query.size(0) / length), query.size(1), length, query.size(2)};
  }
  sides.backward = schema.name().ends_with("_backward");
  sides.cudnn = schema.name().find("cudnn") != std::string::npos;
  return sides;
}

// Adds what the device takes for a product, or attention whose operators may have been announced to compute so much.
void time_products(const CountedOperator& op, Kind kind) {
  const DType type = ops::dtype_of(op.type);
  StepSums::Part& part = sums.here();
  if (op.product) {
    const int64_t ns = nanoseconds(device_times->product(type, *op.product));
    (kind == Kind::kMatrix ? part.matrix_ns : part.attention_ns) += ns;
  } else {
    const int64_t flops = op.work.attention_flops > 0 ? op.work.attention_flops : announced_flops;
    part.attention_ns += nanoseconds(device_times->attention(type, *op.attention, flops));
  }
}

// A copy between a device and its host's memory that nobody waits for: no kernel, and no stream of kernels has it.
bool runs_beside(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  return schema.name() == "aten::copy_" && inputs[2].toBool() &&
         inputs[0].toTensor().device() != inputs[1].toTensor().device();
}

void count_arguments(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  const Kind kind = kind_of(schema);
  const bool counts_bytes = !moves_nothing(schema) && (kind == Kind::kOther || listener != nullptr);
  CountedOperator op{schema.name(), type_of_first(inputs.slice(first_factor(schema.name())))};
  op.bytes = moved_by_arguments = counts_bytes ? traffic_of_arguments(schema, inputs) : 0;
  if (kind == Kind::kOther) {
    op.work.bytes_moved = op.bytes;
  } else {
    op.product = product_sides(schema.name(), inputs);
    if (!op.product && (device_times != nullptr || listener != nullptr)) op.attention = attention_sides(schema, inputs);
  }
  if (kind == Kind::kMatrix || (kind == Kind::kAttention && announced_attention == nullptr)) {
    (kind == Kind::kMatrix ? op.work.matrix_flops : op.work.attention_flops) =
        op.product ? flops_of(*op.product) : fused_attention_flops(schema, inputs);
  }
  sums.add(op.work);
  if (device_times != nullptr && kind != Kind::kOther) time_products(op, kind);
  if (listener != nullptr) listener->starts(op);
}

int64_t traffic_of_results(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& outputs) {
  if (moves_nothing(schema)) return 0;
  const bool gathers = is_any(schema.name(), {"aten::index_select", "aten::embedding"});
  int64_t bytes = 0;
  for (size_t i = 0; i < outputs.size() && i < schema.returns().size(); ++i) {
    if (schema.returns()[i].alias_info() == nullptr) bytes += bytes_of(outputs[i]) * (gathers ? 2 : 1);
  }
  return bytes;
}

void count_results(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& outputs) {
  const bool counts = kind_of(schema) == Kind::kOther;
  if (!counts && listener == nullptr) return;
  const int64_t bytes = traffic_of_results(schema, outputs);
  StepSums::Part& part = sums.here();
  if (counts) part.bytes_moved += bytes;
  if (counts && device_times != nullptr) {
    part.memory_ns += nanoseconds(device_times->stream(schema.name(), moved_by_arguments + bytes));
  }
  if (listener != nullptr) listener->ends(bytes);
}

// What the program's own kernels, or attention of several operators, say of themselves.
void count_announced(const at::RecordFunction& function) {
  plan::Arithmetic work;
  if (function.name() == std::string_view(ops::kAttentionScope)) {
    work.attention_flops = announced_flops = function.inputs()[0].toInt();
    announced_attention = &function;
    attention_started = std::chrono::steady_clock::now();
  } else {
    for (const c10::IValue& value : function.inputs()) work.bytes_moved += bytes_of(value);
  }
  sums.add(work);
  if (device_times != nullptr) {
    sums.here().memory_ns += nanoseconds(device_times->stream(function.name(), work.bytes_moved));
  }
  if (listener != nullptr) {
    listener->starts({function.name(), type_of_first(function.inputs()), work, work.bytes_moved});
  }
}

// Null for what is no operator with a kernel of its own. Looked up once: the dispatcher keeps an operator's name, and
// so its address, as long as the operator.
const c10::FunctionSchema* counted_schema(const at::RecordFunction& function) {
  thread_local std::map<std::pair<c10::DispatchKey, const char*>, const c10::FunctionSchema*> known;
  const auto [at, is_new] = known.try_emplace({kernels_of.load(std::memory_order_relaxed), function.name()}, nullptr);
  if (!is_new) return at->second;
  const auto name = function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (op && op->hasSchema() && has_kernel(*op)) at->second = &op->schema();
  return at->second;
}

void remember_failure() {
  const std::lock_guard lock(failure_lock);
  if (!failure) failure = std::current_exception();
}

void begin(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::USER_SCOPE) return count_announced(function);
  if (outermost != nullptr) return;
  const c10::FunctionSchema* schema = counted_schema(function);
  if (schema == nullptr || runs_beside(*schema, function.inputs())) return;
  count_arguments(*schema, function.inputs());
  started = std::chrono::steady_clock::now();
  outermost = &function;
}

void end(const at::RecordFunction& function) {
  if (announced_attention == &function) {
    announced_attention = nullptr;
    attention_nanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - attention_started).count();
  }
  if (function.scope() == at::RecordScope::USER_SCOPE && listener != nullptr) listener->ends(0);
  if (outermost != &function) return;
  outermost = nullptr;
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
  const c10::FunctionSchema& schema = *counted_schema(function);
  count_results(schema, function.outputs());
  const Kind kind = kind_of(schema);
  if (kind == Kind::kMatrix) matrix_nanoseconds += took.count();
  if (kind == Kind::kAttention && announced_attention == nullptr) attention_nanoseconds += took.count();
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  try {
    begin(function);
  } catch (...) {
    remember_failure();
  }
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  try {
    end(function);
  } catch (...) {
    remember_failure();
  }
}

}  // namespace

ArithmeticCount::ArithmeticCount(c10::DeviceType device, OperatorListener* hears, const plan::OperatorTimes* times,
                                 const ledger::Ledger* of_step) {
  one_at_a_time.lock();
  listener = hears;
  device_times = times;
  sums.begin(of_step);
  matrix_nanoseconds = attention_nanoseconds = 0;
  failure = nullptr;
  kernels_of = device == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
}

ArithmeticCount::~ArithmeticCount() {
  at::removeCallback(handle_);
  one_at_a_time.unlock();
}

plan::StepArithmetic ArithmeticCount::parts() const {
  const std::lock_guard lock(failure_lock);
  if (failure) std::rethrow_exception(failure);
  return sums.told(/*timed=*/device_times != nullptr);
}

double ArithmeticCount::matrix_seconds() const { return static_cast<double>(matrix_nanoseconds) * 1e-9; }
double ArithmeticCount::attention_seconds() const { return static_cast<double>(attention_nanoseconds) * 1e-9; }

}  // namespace fathom::play
