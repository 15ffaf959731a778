"""A Triton kernel of one's own (RMSNorm) with autotune, in an autograd function."""
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["width"])
@triton.jit
def norm_kernel(x, weight, y, scales, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    values = tl.load(x + row * width + at, mask=at < width, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values) / width + 1e-6)
    tl.store(scales + row, scale)
    tl.store(y + row * width + at, values * scale * tl.load(weight + at, mask=at < width), mask=at < width)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y = torch.empty_like(x)
        scales = torch.empty(x.shape[0], device=x.device)
        norm_kernel[(x.shape[0],)](x, weight, y, scales, x.shape[1], triton.next_power_of_2(x.shape[1]))
        ctx.save_for_backward(x, weight, scales)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scales = ctx.saved_tensors
        normed = x * scales[:, None]
        of_normed = gradient * weight
        back = scales[:, None] * (of_normed - normed * (of_normed * normed).mean(-1, keepdim=True))
        return back, (gradient * normed).sum(0)


first, last = (torch.nn.Linear(1024, 1024, device="cuda") for _ in range(2))
weight = torch.nn.Parameter(torch.ones(1024, device="cuda"))
optimizer = torch.optim.AdamW([*first.parameters(), weight, *last.parameters()])
for step in range(3):
    loss = last(Norm.apply(first(torch.randn(4096, 1024, device="cuda")), weight)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.4f}")
