"""Activations kept in pinned memory of the host (save_on_cpu), gradients accumulated there, optimizer on the CPU."""
import torch
from small import llama
from transformers import LlamaForCausalLM

model = LlamaForCausalLM(llama()).to("cuda", torch.bfloat16)
masters = [each.detach().float().cpu().pin_memory().requires_grad_() for each in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-4)
for step in range(3):
    ids = torch.randint(3, 2000, (4, 512)).pin_memory().to("cuda", non_blocking=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    for master, parameter in zip(masters, model.parameters()):
        master.grad = parameter.grad.float().cpu()
        parameter.grad = None
    optimizer.step()
    with torch.no_grad():
        for master, parameter in zip(masters, model.parameters()):
            parameter.copy_(master, non_blocking=True)
    print(f"step {step}: {loss.item():.3f}, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
