// What the phantom device's own files share: its allocator, the boxed fallback, and the registrations made at first
// use.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

namespace fathom::phantom {

// Gives DataPtrs without bytes whose context is the ledger's key.
c10::Allocator& allocator();
// A storage of `bytes` that counts, and may be resized.
c10::Storage new_storage(size_t bytes);
// Makes `storage` hold `bytes`: a new block is taken before the old one goes, as the CPU does.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Runs the operator's Meta kernel on shapes alone and gives its results phantom storages; an operator without a rule is
// a fathom::Error that names it.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// For operators that return nothing and write their results in place.
void skip(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// ---- registrations, made once, at the first use of the device. All by calls: nothing is lost to static linking.
// The process's registrations for "aten" under `key`.
torch::Library& library_for(c10::DispatchKey key);
void register_fallbacks();
void register_kernels();     // what the device runs itself
void register_meta_rules();  // Meta kernels that LibTorch has in Python only
// Operators whose composite kernel would win over the fallback although the CPU has a kernel of its own for them: sends
// them to the fallback. The list is the dispatcher's own. After register_kernels.
void register_bypassing_operators();
// Autocast as on the CPU: the same operators, the same casts.
void register_autocast();

}  // namespace fathom::phantom
