"""TRL's DPOTrainer: preference pairs, a reference model, BF16."""
import torch
from datasets import Dataset
from small import llama, texts, tokenizer
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

words = tokenizer()
pairs = zip(texts(24, 10, 60, 1), texts(24, 20, 200, 2), texts(24, 20, 200, 3))
data = Dataset.from_list([{"prompt": prompt, "chosen": chosen, "rejected": rejected}
                          for prompt, chosen, rejected in pairs])
trainer = DPOTrainer(
    model=AutoModelForCausalLM.from_config(llama(), dtype=torch.bfloat16),
    ref_model=AutoModelForCausalLM.from_config(llama(), dtype=torch.bfloat16),
    args=DPOConfig(output_dir="output", per_device_train_batch_size=4, max_steps=3, bf16=True, logging_steps=1,
                   max_length=256, save_strategy="no", report_to=[]),
    train_dataset=data, processing_class=words)
trainer.train()
