"""DeepSpeed: ZeRO stage 2 by deepspeed.initialize in one process, BF16, accumulation."""
import os

import deepspeed
import torch
from small import llama
from transformers import LlamaForCausalLM

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29511")
engine, optimizer, _, _ = deepspeed.initialize(
    model=LlamaForCausalLM(llama()),
    config={"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
            "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}})
for step in range(4):
    ids = torch.randint(3, 2000, (4, 256), device=engine.device)
    loss = engine(input_ids=ids, labels=ids).loss
    engine.backward(loss)
    engine.step()
    print(f"micro step {step}: {loss.item():.3f}")
