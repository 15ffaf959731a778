"""torchao: AdamW with 8-bit states, then its weight-only INT8 quantization under a frozen model."""
import torch
from small import llama
from torchao.optim import AdamW8bit
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from transformers import LlamaForCausalLM

model = LlamaForCausalLM(llama()).to("cuda", torch.bfloat16)
optimizer = AdamW8bit(model.parameters(), lr=1e-4)
for step in range(3):
    ids = torch.randint(3, 2000, (4, 256), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.3f}")

model.eval()
quantize_(model, Int8WeightOnlyConfig())
with torch.no_grad():
    print(model(input_ids=ids).logits.shape, torch.cuda.memory_allocated())
