"""An embedding model: BERT, mean pooling, LoRA, a contrastive loss over the batch as sentence-transformers has it."""
import torch
from peft import LoraConfig, get_peft_model
from small import texts, tokenizer
from torch.nn import functional as F
from transformers import BertConfig, BertModel

words = tokenizer()
model = BertModel(BertConfig(vocab_size=len(words), hidden_size=384, num_hidden_layers=6, num_attention_heads=6,
                             intermediate_size=1536), add_pooling_layer=False).cuda()
model = get_peft_model(model, LoraConfig(r=16, target_modules=["query", "value"]))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)


def embed(batch):
    given = words(batch, padding=True, return_tensors="pt").to("cuda")
    hidden = model(**given).last_hidden_state
    mask = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=-1)


for step in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        questions, answers = embed(texts(32, 5, 30, step)), embed(texts(32, 50, 200, 100 + step))
        scores = questions @ answers.T * 20
        loss = F.cross_entropy(scores, torch.arange(len(scores), device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    right = (scores.argmax(1) == torch.arange(32, device="cuda")).float().mean()
    print(f"step {step}: loss {loss.item():.3f}, right {right:.2f}")
