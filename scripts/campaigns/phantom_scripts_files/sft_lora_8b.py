"""TRL's SFTTrainer, PEFT's LoRA (r 16, four projections) of a model of Llama-3.1-8B's shape, BF16, 2 × 2,048 tokens."""
import random

import torch
from datasets import Dataset
from peft import LoraConfig
from small import MODELS, tokenizer
from transformers import AutoConfig, AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

LENGTH = 2048

config = AutoConfig.from_pretrained(MODELS / "llama-3.1-8b")
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model = model.to_empty(device="cuda")

draw = random.Random(0)
rows = [[draw.randrange(config.vocab_size) for _ in range(LENGTH)] for _ in range(16)]
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="output", per_device_train_batch_size=2, max_steps=3, bf16=True, learning_rate=2e-4,
                   gradient_checkpointing=True, max_length=LENGTH, logging_steps=1, save_strategy="no", report_to=[]),
    train_dataset=Dataset.from_dict({"input_ids": rows}),
    processing_class=tokenizer(),
    peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                           target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
trainer.train()
