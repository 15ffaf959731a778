"""transformers' Trainer: full fine-tuning in BF16, gradient checkpointing, evaluation, saving, padded batches."""
import torch
from datasets import Dataset
from small import llama, texts, tokenizer
from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments

words = tokenizer()
data = Dataset.from_dict({"text": texts(48)})
data = data.map(lambda row: words(row["text"], truncation=True, max_length=512), remove_columns=["text"])
parts = data.train_test_split(0.25, seed=0)

model = AutoModelForCausalLM.from_config(llama(), dtype=torch.bfloat16)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="output", per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=4, bf16=True,
        gradient_checkpointing=True, logging_steps=1, eval_strategy="steps", eval_steps=2, save_steps=2,
        report_to=[]),
    train_dataset=parts["train"], eval_dataset=parts["test"],
    data_collator=DataCollatorForLanguageModeling(words, mlm=False))
print(trainer.train().metrics)
trainer.save_model("final")
