"""bitsandbytes' INT8 weights (load_in_8bit) under LoRA, a loop by hand."""
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from small import llama
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaForCausalLM

LlamaForCausalLM(llama(hidden_size=1024, intermediate_size=3072)).to(torch.float16).save_pretrained("base")
model = AutoModelForCausalLM.from_pretrained(
    "base", dtype=torch.float16, device_map="auto", quantization_config=BitsAndBytesConfig(load_in_8bit=True))
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-4)
for step in range(3):
    ids = torch.randint(3, 2000, (4, 256), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.3f}")
