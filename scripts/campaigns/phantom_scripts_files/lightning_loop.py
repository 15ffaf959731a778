"""Lightning: a LightningModule, BF16 mixed precision, accumulation, validation, a checkpoint callback."""
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from small import llama
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaForCausalLM


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = LlamaForCausalLM(llama())

    def loss_of(self, batch):
        return self.model(input_ids=batch[0], labels=batch[0]).loss

    def training_step(self, batch, _):
        loss = self.loss_of(batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss_of(batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


rows = TensorDataset(torch.randint(3, 2000, (48, 256)))
trainer = lightning.Trainer(
    accelerator="gpu", devices=1, max_steps=3, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=1.0,
    val_check_interval=4, limit_val_batches=2, callbacks=[ModelCheckpoint("checkpoints", monitor="val_loss")],
    log_every_n_steps=1, logger=False)
trainer.fit(Model(), DataLoader(rows, batch_size=4), DataLoader(rows, batch_size=4))
print(trainer.callback_metrics)
