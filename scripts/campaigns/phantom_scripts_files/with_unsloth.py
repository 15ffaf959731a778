"""Unsloth: FastLanguageModel's LoRA with its own kernels and checkpointing, a loop by hand."""
import unsloth  # noqa: F401, I001 (it must be first)
import torch
from small import llama, tokenizer
from transformers import LlamaForCausalLM
from unsloth import FastLanguageModel

LlamaForCausalLM(llama()).to(torch.bfloat16).save_pretrained("base")
tokenizer().save_pretrained("base")
model, words = FastLanguageModel.from_pretrained("base", max_seq_length=512, dtype=torch.bfloat16, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(
    model, r=16, lora_alpha=16, lora_dropout=0, use_gradient_checkpointing="unsloth",
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=2e-4)
for step in range(3):
    ids = torch.randint(3, 2000, (4, 512), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.3f}")
