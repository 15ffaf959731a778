// What the phantom device's own files share: its allocator, the boxed fallback, and the registrations made at first
// use.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>

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

// Operators whose composite kernel would win over the fallback although the CPU has a kernel of its own for them: sends
// them to the fallback. The list is the dispatcher's own.
void register_bypassing_operators();
// Autocast as on the CPU: the same operators, the same casts.
void register_autocast();

}  // namespace fathom::phantom
