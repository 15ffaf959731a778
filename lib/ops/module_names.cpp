// A call before each part, and a hook on what it returns.
#include "ops/module_names.h"

namespace fathom::ops {

void ModuleNames::forward(const char* part) const {
  if (ledger_ != nullptr) ledger_->enter(prefix_ + part);
}

void ModuleNames::backward(const at::Tensor& output, const char* part) const {
  if (ledger_ == nullptr || !output.requires_grad()) return;
  output.register_hook([ledger = ledger_, name = prefix_ + part](const at::Tensor&) { ledger->enter(name); });
}

}  // namespace fathom::ops
