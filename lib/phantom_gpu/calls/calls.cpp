// Spares LibTorch's operators the way through Python that nobody needs.
//
// A script's values are followed by a TorchDispatchMode (lib/phantom_gpu/agent/values.py). As such it would cost each
// operator some twenty microseconds before it has done anything, twice what LibTorch takes for one. Most operators are
// given what nobody knows: a fallback at a dispatch key just above that of modes finds these, calls them itself, and
// notes that nobody knows their results; the mode is asked for the others alone. The key is Fake, which LibTorch leaves
// to others. A library is for one version of LibTorch; the agent loads it into the script's Python.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

// Of the stub of libcudart (lib/phantom_gpu/stubs/phantom.h).
extern "C" {
void phantom_forget(const void* storage);
bool phantom_knows(const void* storage);
void phantom_operator_begins(const char* name);
void phantom_operator_ends();
}

namespace {

// What rules.py says of an operator.
enum class Kind : int {
  kAsked,     // it looks at each call that has to do with the GPU
  kEmpty,     // nothing is known of its results
  kPlain,     // nothing is known of its results where something that it is given is unknown
  kDeciding,  // the same, unless one known operand decides
  kMoving,    // the same, unless it makes them on the host
};

constexpr auto kHere = c10::DispatchKey::Fake;
using Mode = std::shared_ptr<c10::impl::PyObject_TorchDispatchMode>;

// Of values.py, not on the stack of modes: there it would be asked for every operator.
Mode& mode() {
  static Mode held;
  return held;
}

// Elements of a tensor that is followed; on a thread that says so, all are.
std::atomic<int64_t> limit = 0, limit_of_floats = 0;
thread_local bool follows_all = false;

std::shared_mutex mutex;
std::unordered_map<const c10::FunctionSchema*, Kind> kinds;

// Reads and writes nothing (as torch._ops.OpOverload.is_view).
bool is_view(const c10::FunctionSchema& schema) {
  bool has_alias = false;
  for (const c10::Argument& each : schema.arguments()) {
    if (each.alias_info() == nullptr) continue;
    if (each.alias_info()->isWrite()) return false;
    has_alias = true;
  }
  return has_alias;
}

// None: the mode has not said yet.
std::optional<Kind> kind_of(const c10::OperatorHandle& op) {
  const std::shared_lock lock(mutex);
  const auto found = kinds.find(&op.schema());
  if (found == kinds.end()) return std::nullopt;
  return found->second;
}

template <typename Look>
void for_tensors(const c10::IValue& value, const Look& look) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) look(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) for_tensors(each, look);
  }
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.unsafeGetTensorImpl()->unsafe_storage().data() : nullptr;
}

bool is_followed(const at::Tensor& tensor) {
  const int64_t count = tensor.numel();
  if (count == 0) return true;
  if (!follows_all && count > (tensor.is_floating_point() ? limit_of_floats : limit)) return false;
  return phantom_knows(storage_of(tensor));
}

void forget(const c10::IValue& value) {
  for_tensors(value, [](const at::Tensor& tensor) {
    if (tensor.is_cuda() && tensor.numel() > 0) phantom_forget(storage_of(tensor));
  });
}

struct Given {
  bool has_subclass = false;  // whose own Python sees the call
  bool has_cuda = false;      // a tensor, or a device to make one on
  bool has_host = false;      // another device to make one on
  bool has_unknown = false;
  bool has_known_whole_numbers = false;  // which may decide
};

Given given_to(c10::ArrayRef<c10::IValue> arguments) {
  Given given;
  for (const c10::IValue& argument : arguments) {
    if (argument.isDevice()) (argument.toDevice().is_cuda() ? given.has_cuda : given.has_host) = true;
    for_tensors(argument, [&](const at::Tensor& tensor) {
      if (tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) given.has_subclass = true;
      if (given.has_subclass || !tensor.is_cuda()) return;
      given.has_cuda = true;
      const bool follows = is_followed(tensor);
      given.has_unknown = given.has_unknown || !follows;
      if (follows && !tensor.is_floating_point()) given.has_known_whole_numbers = true;
    });
  }
  return given;
}

// So that an operator has ended however it did.
struct Called {
  explicit Called(const c10::FunctionSchema& schema) { phantom_operator_begins(schema.name().c_str()); }
  ~Called() { phantom_operator_ends(); }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;
};

bool goes_straight(Kind kind, const Given& given) {
  if (!given.has_cuda) return true;
  switch (kind) {
    case Kind::kAsked:
      return false;
    case Kind::kEmpty:
      return true;
    case Kind::kPlain:
      return given.has_unknown;
    case Kind::kDeciding:
      return given.has_unknown && !given.has_known_whole_numbers;
    case Kind::kMoving:
      return given.has_unknown && !given.has_host;
  }
  return false;
}

void ask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  struct Pushed {
    Pushed() { c10::impl::TorchDispatchModeTLS::push_non_infra_mode_onto_stack(mode()); }
    ~Pushed() { c10::impl::TorchDispatchModeTLS::pop_stack(); }
    Pushed(const Pushed&) = delete;
    Pushed& operator=(const Pushed&) = delete;
  } const pushed;
  mode()->pyinterpreter()->dispatch(op, stack);
}

void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kHere);
  const auto& schema = op.schema();
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  const Given given = given_to(arguments);
  // Others' modes and tensors see the call first, and what they call in turn comes here again; code that switches modes
  // off is not followed.
  if (given.has_subclass || c10::impl::TorchDispatchModeTLS::stack_len() > 0 ||
      c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) {
    return op.redispatchBoxed(below, stack);
  }

  const c10::impl::ExcludeDispatchKeyGuard once(kHere);
  const auto kind = kind_of(op);
  // A view comes from no Python: of some, LibTorch makes a Parameter, which must have no Python object yet.
  if (!kind && is_view(schema)) return op.redispatchBoxed(below, stack);
  if (!kind || !goes_straight(*kind, given)) return ask(op, stack);
  if (!given.has_cuda) return op.redispatchBoxed(below, stack);
  torch::jit::Stack written;  // lists of tensors that are changed in place are no results
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written.push_back(arguments[i]);
  }
  const Called called(schema);
  op.redispatchBoxed(below, stack);
  for (const c10::IValue& each : torch::jit::last(*stack, schema.returns().size())) forget(each);
  for (const c10::IValue& each : written) forget(each);
}

}  // namespace

// Called by values.py.
extern "C" {
// Of this thread, tensors of any size, or those of up to the elements that phantom_calls_begin has set.
void phantom_calls_follow_all(bool all) { follows_all = all; }
// Whether what this thread calls is followed, and those that its backward passes run on.
void phantom_calls_here(bool follows) { c10::impl::tls_set_dispatch_key_included(kHere, follows); }
// From now on, on this thread and where phantom_calls_here says so, tensors of up to so many elements. The mode was
// entered.
void phantom_calls_begin(int64_t elements, int64_t elements_of_floats) {
  limit = elements;
  limit_of_floats = elements_of_floats;
  mode() = c10::impl::TorchDispatchModeTLS::pop_stack();
  phantom_calls_here(true);
}
void phantom_calls_are(const char* name, const char* overload, int kind) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op) return;
  const std::unique_lock lock(mutex);
  kinds[&op->schema()] = static_cast<Kind>(kind);
}
}

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&call>()); }
