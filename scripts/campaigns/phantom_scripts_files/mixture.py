"""Mixtures of experts: a small Qwen3-MoE and a small Mixtral with their router's loss, by a loop."""
import torch
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

SHAPE = {"vocab_size": 4096, "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 4, "output_router_logits": True}
MODELS = ((Qwen3MoeForCausalLM, Qwen3MoeConfig(**SHAPE, moe_intermediate_size=256, num_experts=16, head_dim=64,
                                               num_experts_per_tok=4)),
          (MixtralForCausalLM, MixtralConfig(**SHAPE, intermediate_size=1024, num_local_experts=4)))
for kind, config in MODELS:
    model = kind(config).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.cuda.reset_peak_memory_stats()
    for step in range(3):
        ids = torch.randint(0, 4096, (4, 256), device="cuda")
        loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{kind.__name__}, step {step}: {loss.item():.3f}")
    print(f"{torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
    del model, optimizer, loss
