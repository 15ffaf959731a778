"""FLAN-T5: Seq2SeqTrainer with predict_with_generate, beams, a metric over the answers."""
import numpy
from datasets import Dataset
from small import texts, tokenizer
from transformers import (DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config,
                          T5ForConditionalGeneration)

words = tokenizer()
model = T5ForConditionalGeneration(T5Config(
    vocab_size=len(words), d_model=512, d_kv=64, d_ff=1024, num_layers=4, num_heads=6, feed_forward_proj="gated-gelu",
    tie_word_embeddings=False, pad_token_id=1, eos_token_id=2, decoder_start_token_id=1))
rows = [{"input_ids": words(source)["input_ids"], "labels": words(target)["input_ids"]}
        for source, target in zip(texts(40, 50, 300, 1), texts(40, 10, 60, 2))]


def exact(prediction):
    answers, labels = prediction
    answers = numpy.where(answers == -100, words.pad_token_id, answers)
    labels = numpy.where(labels == -100, words.pad_token_id, labels)
    answers, labels = (words.batch_decode(each, skip_special_tokens=True) for each in (answers, labels))
    return {"exact": float(numpy.mean([answer == label for answer, label in zip(answers, labels)]))}


trainer = Seq2SeqTrainer(
    model=model,
    args=Seq2SeqTrainingArguments(
        output_dir="output", per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=3, bf16=True,
        logging_steps=1, eval_strategy="steps", eval_steps=3, predict_with_generate=True, generation_max_length=48,
        generation_num_beams=2, save_strategy="no", report_to=[]),
    train_dataset=Dataset.from_list(rows[:32]), eval_dataset=Dataset.from_list(rows[32:]),
    data_collator=DataCollatorForSeq2Seq(words, model), processing_class=words, compute_metrics=exact)
trainer.train()
