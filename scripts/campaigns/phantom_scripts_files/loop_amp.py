"""Plain PyTorch: a transformer's encoder, autocast to FP16, GradScaler, clipping, AdamW, evaluation, a checkpoint."""
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")


class Classifier(nn.Module):
    def __init__(self, vocabulary=5000, width=512, classes=10):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        padding = ids == 0
        hidden = self.encoder(self.embed(ids), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1)
        return self.head((hidden * kept).sum(1) / kept.sum(1))


def batches(count, size=16, length=256):
    for _ in range(count):
        ids = torch.randint(1, 5000, (size, length))
        for row, end in enumerate(torch.randint(length // 2, length + 1, (size,)).tolist()):
            ids[row, end:] = 0
        yield ids.to(device, non_blocking=True), torch.randint(0, 10, (size,)).to(device)


model = Classifier().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10)
scaler = torch.amp.GradScaler("cuda")
running = 0.0
for step, (ids, labels) in enumerate(batches(5)):
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(ids), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    optimizer.zero_grad()
    running += loss.item()
    print(f"step {step}: loss {loss.item():.3f}, norm {norm:.3f}, scale {scaler.get_scale():.0f}")

model.eval()
right = count = 0
with torch.no_grad():
    for ids, labels in batches(2):
        right += (model(ids).argmax(-1) == labels).sum().item()
        count += len(labels)
print(f"accuracy {right / count:.2f}, peak {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
