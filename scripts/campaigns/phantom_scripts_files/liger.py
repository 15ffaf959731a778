"""Liger's kernels in place of transformers' (norms, rotary positions, SwiGLU, fused linear cross-entropy), Trainer."""
import torch
from datasets import Dataset
from small import llama, texts, tokenizer
from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments

words = tokenizer()
data = Dataset.from_list([dict(words(text)) for text in texts(32)])
trainer = Trainer(
    model=AutoModelForCausalLM.from_config(llama(vocab_size=32000), dtype=torch.bfloat16),
    args=TrainingArguments(output_dir="output", per_device_train_batch_size=4, max_steps=3, bf16=True, logging_steps=1,
                           use_liger_kernel=True, save_strategy="no", report_to=[]),
    train_dataset=data, data_collator=DataCollatorForLanguageModeling(words, mlm=False))
trainer.train()
