"""TRL's GRPOTrainer: four answers to a prompt by transformers' generate, a reward in Python, a step on them."""
import torch
from datasets import Dataset
from small import llama, texts, tokenizer
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer


def reward(completions, **_):
    return [float(len(set(text.split()))) for text in completions]


LlamaForCausalLM(llama()).to(torch.bfloat16).save_pretrained("base")
trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained("base", dtype=torch.bfloat16),
    reward_funcs=reward,
    args=GRPOConfig(output_dir="output", per_device_train_batch_size=4, num_generations=4, max_completion_length=32,
                    max_steps=2, bf16=True, beta=0.04, logging_steps=1, save_strategy="no", report_to=[]),
    train_dataset=Dataset.from_dict({"prompt": texts(8, 10, 40)}), processing_class=tokenizer())
trainer.train()
