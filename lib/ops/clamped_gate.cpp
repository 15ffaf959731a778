// One kernel forward and one backward on CPUs, ATen's operators elsewhere.
#include "ops/clamped_gate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "cpu/clamped_gate.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// Every second column, a view.
at::Tensor turns_of(const at::Tensor& x_RG, int64_t first) { return x_RG.slice(1, first, std::nullopt, 2); }

}  // namespace

at::Tensor clamped_gate(const ClampedGate& gate, const at::Tensor& gate_up_RG) {
  if (!has_kernel(gate_up_RG)) {
    const at::Tensor gate_RF = turns_of(gate_up_RG, 0).clamp_max(gate.limit);
    at::Tensor out_RF = turns_of(gate_up_RG, 1).clamp(-gate.limit, gate.limit).add_(1);
    return out_RF.mul_(gate_RF).mul_((gate_RF * gate.slope).sigmoid_());
  }
  at::Tensor out_RF = at::empty({gate_up_RG.size(0), gate_up_RG.size(1) / 2}, gate_up_RG.options());
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::clamped_gate", traffic(gate_up_RG, out_RF));
  if (gate_up_RG.is_cpu()) {
    at::parallel_for(0, out_RF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::clamped_gate(gate, rows(gate_up_RG), rows(out_RF), first, last);
    });
  }
  return out_RF;
}

at::Tensor clamped_gate_backward(const ClampedGate& gate, const at::Tensor& grad_RF, const at::Tensor& gate_up_RG) {
  at::Tensor grad_RG = at::empty_like(gate_up_RG);
  if (!has_kernel(gate_up_RG)) {
    const at::Tensor raw_gate_RF = turns_of(gate_up_RG, 0), raw_up_RF = turns_of(gate_up_RG, 1);
    const at::Tensor gate_RF = raw_gate_RF.clamp_max(gate.limit), sigmoid_RF = (gate_RF * gate.slope).sigmoid_();
    at::Tensor made_RF = (grad_RF * gate_RF).mul_(sigmoid_RF);
    turns_of(grad_RG, 1).copy_(made_RF.mul_(raw_up_RF.abs().le_(gate.limit)));
    // Of g sigmoid(a g): sigmoid(a g) (1 + a g (1 - sigmoid(a g))).
    made_RF = at::rsub(sigmoid_RF, 1).mul_(gate_RF).mul_(gate.slope).add_(1).mul_(sigmoid_RF).mul_(grad_RF);
    made_RF.mul_(raw_up_RF.clamp(-gate.limit, gate.limit).add_(1));
    turns_of(grad_RG, 0).copy_(made_RF.mul_(raw_gate_RF.le(gate.limit)));
    return grad_RG;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::clamped_gate_backward", traffic(grad_RF, gate_up_RG, grad_RG));
  if (gate_up_RG.is_cpu()) {
    at::parallel_for(0, grad_RF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::clamped_gate_backward(gate, rows(grad_RF), rows(gate_up_RG), rows(grad_RG), first, last);
    });
  }
  return grad_RG;
}

}  // namespace fathom::ops
