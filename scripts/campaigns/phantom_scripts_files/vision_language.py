"""LLaVA, small: a CLIP encoder, whose patches a convolution makes, LoRA of the language model."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlavaConfig, LlavaForConditionalGeneration

config = LlavaConfig(
    text_config={"model_type": "llama", "vocab_size": 2000, "hidden_size": 512, "intermediate_size": 1024,
                 "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4},
    vision_config={"model_type": "clip_vision_model", "hidden_size": 256, "intermediate_size": 512,
                   "num_hidden_layers": 4, "num_attention_heads": 4, "image_size": 112, "patch_size": 14},
    image_token_index=1999)
model = LlavaForConditionalGeneration(config).to("cuda", torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=8, target_modules=r".*language_model.*\.(q|v)_proj"))
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
patches = (112 // 14) ** 2
for step in range(3):
    ids = torch.randint(3, 1998, (2, 128))
    ids[:, 4:4 + patches] = config.image_token_index
    ids = ids.to("cuda")
    images = torch.randn(2, 3, 112, 112).to("cuda", torch.bfloat16)
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=images, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.3f}")
