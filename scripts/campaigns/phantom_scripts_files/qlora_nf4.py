"""bitsandbytes' QLoRA: NF4 with double quantization, paged 8-bit AdamW, PEFT on all linear layers, Trainer."""
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from small import llama, texts, tokenizer
from transformers import (AutoModelForCausalLM, BitsAndBytesConfig, DataCollatorForLanguageModeling, LlamaForCausalLM,
                          Trainer, TrainingArguments)

LlamaForCausalLM(llama(hidden_size=1024, intermediate_size=3072)).to(torch.bfloat16).save_pretrained("base")
model = AutoModelForCausalLM.from_pretrained(
    "base", dtype=torch.bfloat16, device_map={"": 0},
    quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                           bnb_4bit_compute_dtype=torch.bfloat16))
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=16, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM"))
model.print_trainable_parameters()

words = tokenizer()
rows = [words(text, truncation=True, max_length=512) for text in texts(32)]
trainer = Trainer(
    model=model,
    args=TrainingArguments(output_dir="output", per_device_train_batch_size=4, max_steps=3, bf16=True, logging_steps=1,
                           optim="paged_adamw_8bit", report_to=[]),
    train_dataset=Dataset.from_list([dict(row) for row in rows]),
    data_collator=DataCollatorForLanguageModeling(words, mlm=False))
trainer.train()
model.save_pretrained("adapter")
