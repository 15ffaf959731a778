"""LLaMA-Factory: its supervised fine-tuning with LoRA, by the options of its YAML files."""
import json
import pathlib

import torch
from llamafactory.train.tuner import run_exp
from small import llama, texts, tokenizer
from transformers import LlamaForCausalLM

LlamaForCausalLM(llama()).to(torch.bfloat16).save_pretrained("base")
tokenizer().save_pretrained("base")
rows = [{"instruction": asked, "input": "", "output": answer}
        for asked, answer in zip(texts(32, 5, 30, 1), texts(32, 20, 100, 2))]
pathlib.Path("rows.json").write_text(json.dumps(rows))
pathlib.Path("dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
run_exp({"model_name_or_path": "base", "stage": "sft", "do_train": True, "finetuning_type": "lora", "lora_rank": 8,
         "lora_target": "all", "dataset_dir": ".", "dataset": "rows", "template": "empty", "cutoff_len": 512,
         "output_dir": "output", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "max_steps": 3,
         "learning_rate": 1e-4, "bf16": True, "logging_steps": 1, "save_strategy": "no", "report_to": "none"})
