"""accelerate: a loop with gradient accumulation, BF16, clipping, gathered metrics, a saved state."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import Dataset
from small import llama, texts, tokenizer
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling, get_cosine_schedule_with_warmup

set_seed(0)
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
words = tokenizer()
data = Dataset.from_dict({"text": texts(96)}).map(lambda row: words(row["text"]), remove_columns=["text"])
parts = data.train_test_split(0.2, seed=0)
collate = DataCollatorForLanguageModeling(words, mlm=False)
train = DataLoader(parts["train"], batch_size=4, shuffle=True, collate_fn=collate, pin_memory=True)
test = DataLoader(parts["test"], batch_size=4, collate_fn=collate)
model = AutoModelForCausalLM.from_config(llama())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
schedule = get_cosine_schedule_with_warmup(optimizer, 2, 10)
model, optimizer, train, test, schedule = accelerator.prepare(model, optimizer, train, test, schedule)

for step, batch in enumerate(train):
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if step % 4 == 0:
        accelerator.print(f"step {step}: loss {accelerator.gather(loss.detach()).mean().item():.3f}")

model.eval()
losses = []
for batch in test:
    with torch.no_grad():
        losses.append(accelerator.gather_for_metrics(model(**batch).loss.repeat(4)))
print("perplexity", torch.exp(torch.cat(losses).mean()).item())
accelerator.save_state("state")
