"""What the scripts share: a small model's configuration, words to train on, and a tokenizer for them."""
import os
import pathlib
import random

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

MODELS = pathlib.Path(os.environ.get("FATHOM_MODELS") or pathlib.Path(__file__).resolve().parents[3] / "configs/models")
WORDS = [f"w{i}" for i in range(2000)]
CHAT = "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} </s> {% endfor %}"


def llama(**changes):
    return LlamaConfig(**{"vocab_size": len(WORDS) + 5, "hidden_size": 512, "intermediate_size": 1536,
                          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
                          "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2, **changes})


def tokenizer():
    names = ["<unk>", "<pad>", "</s>", "user", "assistant", *WORDS]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", bos_token="</s>",
                                   eos_token="</s>", chat_template=CHAT)


def texts(count, shortest=50, longest=400, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(shortest, longest))) for _ in range(count)]
