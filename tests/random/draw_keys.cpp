// How each key is drawn.
#include "tests/random/draw_keys.h"

#include <algorithm>

#include "tests/random/draw_model.h"
#include "tests/random/draw_targets.h"

namespace fathom::random {
namespace {

using Words = std::vector<std::string>;
using Value = std::optional<std::string>;

std::string text_of(bool flag) { return flag ? "true" : "false"; }
// A flag that is given, on or off, where it may be.
Value flag(Draft& draft, double share, bool may) {
  if (!may) return std::nullopt;
  if (draft.dice.chance(share)) return "true";
  return draft.dice.chance(0.05) ? Value("false") : std::nullopt;
}

Value maybe(Draft& draft, double share, const Words& words) {
  return draft.dice.chance(share) ? Value(draft.dice.one_of(words)) : std::nullopt;
}

Value draw_dtype(Draft& draft) {
  if (!draft.multiplies_in_bf16 && !draft.rarely()) return "float32";
  if (draft.dice.chance(0.3)) return std::nullopt;
  if (draft.lora() && (!draft.encodes() || draft.rarely())) {
    return draft.dice.one_of<std::string>({"float32", "bfloat16", "bfloat16", "float16"});
  }
  return draft.dice.one_of<std::string>({"float32", "bfloat16"});
}

// The type in which weights will be stored, as far as precision has to know it.
std::string storage(const Draft& draft) {
  if (!draft.is("dtype", "null")) return draft.run.value("dtype");
  return draft.lora() ? "unset" : "float32";
}

Value draw_bf16(Draft& draft) {
  const std::string stored = storage(draft);
  return flag(draft, draft.multiplies_in_bf16 ? 0.35 : 0.02,
              stored != "float16" && (draft.lora() || stored != "bfloat16"));
}

Value draw_fp16(Draft& draft) {
  if (draft.encodes() && !draft.rarely()) return std::nullopt;
  return flag(draft, 0.2, !draft.is("bf16", "true") && storage(draft) != "bfloat16");
}

Value draw_master_weights(Draft& draft) {
  if (draft.lora() || storage(draft) != "bfloat16" || !draft.adamw()) return std::nullopt;
  return maybe(draft, 0.7, {"fp32", "stochastic", "none"});
}

Value draw_qat(Draft& draft) {
  if (draft.quantized() || draft.dice.chance(0.85)) return std::nullopt;
  if (draft.has_experts() && !draft.rarely()) return std::nullopt;
  if (draft.fits_int4() || draft.rarely()) return draft.dice.one_of<std::string>({"int8", "int4", "none"});
  return draft.dice.one_of<std::string>({"int8", "int8", "none"});
}

// Of a decoder, whose samples are texts.
Value draw_objective(Draft& draft) {
  const bool routers_add =
      draft.run.model.value("output_router_logits", false) && draft.run.model.value("router_aux_loss_coef", 0.001) != 0;
  const bool may = draft.run.tokenizer && !draft.encodes() && !routers_add;
  if (!may && !draft.rarely()) return maybe(draft, 0.1, {"sft"});
  return maybe(draft, 0.6, {"dpo", "dpo", "dpo", "dpo", "simpo", "simpo", "sft"});
}

Value draw_format(Draft& draft) {
  if (draft.prefers()) return maybe(draft, 0.5, {"preference", "preference", "auto"});
  const bool bytes = draft.run.tokenizer;
  if (!bytes || draft.dice.chance(0.3)) return maybe(draft, 0.6, {"input_ids", "input_ids", "auto"});
  Words formats = {"prompt_completion"};
  if (!draft.encodes() || draft.rarely()) formats.emplace_back("text");
  if (draft.longest >= 33 && (!draft.encodes() || draft.rarely()))
    formats.insert(formats.end(), {"messages", "sharegpt"});
  if (draft.longest >= 200) formats.emplace_back("alpaca");  // whose own words are 143 tokens
  return draft.dice.one_of(formats);
}

// A step has up to 5,000 micro-batches of each process, as far as there are lines.
Value draw_accumulation(Draft& draft) {
  const bool excluded = draft.is("cuda_graphs", "true") && !draft.rarely();
  if (excluded) return maybe(draft, 0.1, {"1"});
  if (!draft.run.planned) return maybe(draft, 0.4, {"1", "2", "2", "3", "4", "30"});
  return draft.dice.chance(0.8) ? Value(std::to_string(draft.dice.of_any_size(1, 5000))) : std::nullopt;
}

// Two or three train, each of which the program starts; of many only the plan of one is made.
Value draw_processes(Draft& draft) {
  if (draft.prefers() && !draft.rarely()) return maybe(draft, 0.05, {"1"});
  if (draft.reach == Reach::kNear || (!draft.run.planned && draft.run.train.size() < 20))
    return maybe(draft, 0.05, {"1"});
  if (!draft.run.planned) return maybe(draft, 0.2, {"1", "2", "3"});
  return draft.dice.chance(0.4) ? Value(std::to_string(draft.dice.of_any_size(2, 64))) : std::nullopt;
}

Value draw_strategy(Draft& draft) {
  if (!draft.of_several()) return maybe(draft, 0.05, {"ddp", "auto"});
  if (draft.is("optim", "adafactor") && !draft.rarely()) return "ddp";
  return maybe(draft, 0.9, {"ddp", "fsdp", "fsdp", "auto"});
}

bool shares_model(const Draft& draft) { return draft.of_several() && draft.is("strategy", "fsdp"); }

// Copies that as many processes share each.
Value draw_copies(Draft& draft) {
  if (!shares_model(draft)) return draft.of_several() ? std::nullopt : maybe(draft, 0.005, {"1"});
  return draft.number("num_processes") % 2 == 0 ? maybe(draft, 0.5, {"1", "2"}) : std::nullopt;
}

Value draw_rows(Draft& draft) {
  if (draft.run.planned) {
    if (draft.dice.chance(0.3)) return "1";  // most micro-batches
    const int64_t processes = draft.number("num_processes");
    return std::to_string(draft.dice.of_any_size(1, std::clamp<int64_t>(draft.lines() / processes / 2, 1, 512)));
  }
  const int64_t most = std::max<int64_t>(1, 700 / draft.longest);
  return std::to_string(std::min(most, draft.dice.one_of<int64_t>({1, 1, 2, 3, 4, 5, 7, 8})));
}

Value draw_steps(Draft& draft) {
  if (draft.run.planned) {  // ten thousand micro-batches are played in a minute
    const int64_t most = 10'000 / (draft.number("gradient_accumulation_steps") * draft.number("num_processes"));
    return draft.dice.chance(0.5) ? Value(std::to_string(draft.dice.of_any_size(1, std::clamp<int64_t>(most, 1, 2000))))
                                  : std::nullopt;
  }
  if (draft.is_long()) {  // a thousand micro-batches are trained in a minute
    const int64_t most = std::max<int64_t>(1, 1'000 / draft.number("gradient_accumulation_steps"));
    return std::to_string(draft.dice.between(std::min<int64_t>(100, most), std::min<int64_t>(400, most)));
  }
  return draft.dice.chance(0.6) ? Value(std::to_string(draft.dice.between(1, 8))) : std::nullopt;
}

Value draw_epochs(Draft& draft) {
  if (!draft.is("max_steps", "-1")) return maybe(draft, 0.1, {"1", "2"});
  if (draft.run.planned) return draft.dice.one_of<std::string>({"0.01", "0.4", "1", "1", "2"});
  if (!draft.is_long() && draft.reaches()) return draft.dice.one_of<std::string>({"0.001", "20"});
  return draft.dice.one_of<std::string>({"0.4", "1", "1", "2", "2.5", "3"});
}

Value draw_save_strategy(Draft& draft) {
  if (draft.run.resume_at > 0) return "steps";
  return maybe(draft, 0.6, {"no", "steps", "epoch"});
}

Value draw_save_steps(Draft& draft) {
  if (draft.run.resume_at > 0) return std::to_string(draft.run.resume_at);
  if (!draft.is("save_strategy", "steps")) return std::nullopt;
  if (draft.is_long()) return maybe(draft, 0.7, {"41", "67", "97", "150"});
  return maybe(draft, 0.7, {"1", "2", "3", "5"});
}

Value draw_evaluation(Draft& draft) {
  if (draft.run.validation.empty() && draft.is("validation_split", "0")) return std::nullopt;
  return maybe(draft, 0.8, {"steps", "epoch", "epoch", "no"});
}

// Of samples with a prompt, where there is a tokenizer for what is answered.
Value draw_answers(Draft& draft) {
  if (draft.run.validation.empty() && draft.is("validation_split", "0")) return std::nullopt;
  const bool pairs =
      draft.encodes() || draft.is("dataset_format", "prompt_completion") || draft.is("dataset_format", "alpaca");
  const bool has_prompts =
      (pairs && !draft.is("completion_only_loss", "false")) || draft.is("assistant_only_loss", "true");
  const bool may = has_prompts && draft.run.tokenizer && !draft.turns_long_texts_otherwise();
  return flag(draft, 0.4, may || draft.rarely());
}

}  // namespace

const std::vector<KeyDraw>& key_draws() {
  static const std::vector<KeyDraw> table = {
      {"model_name_or_path", [](Draft& draft) { return Value(draft.run.quantized.empty() ? "model" : "quantized"); }},
      {"train_file",
       [](Draft& draft) {
         return Value(draft.dice.one_of<std::string>(
             {"train.jsonl", "train.jsonl", "'part-*.jsonl'", "[part-1.jsonl, part-0.jsonl]"}));
       }},
      {"output_dir", [](Draft&) { return Value("out"); }},
      {"random_init",
       [](Draft& draft) { return flag(draft, draft.run.weights.empty() ? 1 : 0.05, !draft.stored_in_codes()); }},
      {"method",
       [](Draft& draft) {
         if (draft.stored_in_codes()) return Value("lora");
         return maybe(draft, 0.55, {"lora", "lora", "lora", "lora", "full"});
       }},
      {"objective", draw_objective},
      {"beta",
       [](Draft& draft) {
         return draft.prefers() ? maybe(draft, 0.5, {"0.01", "0.1", "2"}) : std::nullopt;
       }},
      {"simpo_gamma",
       [](Draft& draft) {
         return draft.is("objective", "simpo") ? maybe(draft, 0.5, {"0", "0.5", "1.4"}) : std::nullopt;
       }},
      {"loss_type",
       [](Draft& draft) {
         return draft.dpo() ? maybe(draft, 0.8, words_of(*config::find_key("loss_type"))) : std::nullopt;
       }},
      {"label_smoothing",
       [](Draft& draft) {
         if (draft.is("loss_type", "exo_pair")) return maybe(draft, 1, {"0.001", "0.3"});
         const bool reads = draft.is("loss_type", "robust") || draft.is("loss_type", "cdpo");
         return reads ? maybe(draft, 0.8, {"0", "0.1", "0.4"}) : std::nullopt;
       }},
      {"optim",
       [](Draft& draft) {
         return maybe(draft, 0.6, {"adamw", "adamw_8bit", "adamw_bf16", "sgd", "adafactor", "lion"});
       }},
      {"dtype", draw_dtype},
      {"bf16", draw_bf16},
      {"fp16", draw_fp16},
      {"tf32", [](Draft& draft) { return flag(draft, 0.1, draft.on_gpu()); }},
      {"master_weights", draw_master_weights},
      {"attn_implementation",
       [](Draft& draft) {
         const bool narrow = draft.is("bf16", "true") || draft.is("fp16", "true");
         const bool has_cudnn = draft.run.gpu == "H100" && narrow && draft.run.model.value("head_dim", 0) % 64 == 0 &&
                                draft.run.model.contains("head_dim");
         if (has_cudnn && draft.dice.chance(0.3)) return Value("cudnn");
         return maybe(draft, 0.4, {"flash", "math", "math"});
       }},
      // Always given: a machine with a GPU would take it.
      {"device",
       [](Draft& draft) {
         return Value(draft.on_gpu() ? draft.dice.one_of<std::string>({"cuda", "cuda", "auto"}) : "cpu");
       }},
      {"cuda_kernels",
       [](Draft& draft) {
         return draft.on_gpu() ? maybe(draft, 0.5, {"true", "false", "false"}) : flag(draft, 0, false);
       }},
      {"num_threads",
       [](Draft& draft) {
         if (draft.run.planned && draft.reaches()) return Value("64");
         return maybe(draft, 0.5, {"0", "1", "2", "2", "3"});
       }},
      {"num_processes", draw_processes},
      {"strategy", draw_strategy},
      {"dp_replicate_size", draw_copies},
      {"dp_shard_size",
       [](Draft& draft) {
         return draft.of_several() && !shares_model(draft) ? std::nullopt : maybe(draft, 0.005, {"0"});
       }},
      {"reshard_after_forward",
       [](Draft& draft) {
         if (shares_model(draft)) return maybe(draft, 0.5, {"true", "false"});
         return draft.of_several() ? std::nullopt : maybe(draft, 0.005, {"true"});
       }},
      {"ddp_timeout",
       [](Draft& draft) {
         return maybe(draft, 0.05, {"60", "120", "2147483647"});
       }},
      {"memory_budget",
       [](Draft& draft) {
         return maybe(draft, 0.1, {"1GiB", "1GiB", "4GiB", "700MB", "40MiB"});
       }},
      {"lora_r",
       [](Draft& draft) {
         if (draft.lora() && draft.reaches()) return Value("1000");
         return draft.lora() ? maybe(draft, 0.7, {"1", "2", "3", "4", "5", "16", "64"}) : std::nullopt;
       }},
      {"lora_alpha",
       [](Draft& draft) {
         return draft.lora() ? maybe(draft, 0.3, {"0.5", "16", "32"}) : std::nullopt;
       }},
      {"load_in_8bit", [](Draft& draft) { return flag(draft, 0.12, draft.lora() && !draft.quantized()); }},
      {"load_in_4bit", [](Draft& draft) { return flag(draft, 0.15, draft.lora() && !draft.quantized()); }},
      {"load_in_fp8", [](Draft& draft) { return flag(draft, 0.12, draft.lora() && !draft.quantized()); }},
      {"fp8",
       [](Draft& draft) {
         if (!draft.on_gpu()) return std::optional<std::string>();
         const bool may = draft.multiplies_fp8() || draft.rarely();
         if (draft.lora()) return flag(draft, 0.8, may && draft.is("load_in_fp8", "true"));
         return flag(draft, 0.5, may && draft.is("cuda_kernels", "true"));
       }},
      {"bnb_4bit_use_double_quant", [](Draft& draft) { return flag(draft, 0.5, draft.is("load_in_4bit", "true")); }},
      {"qat", draw_qat},
      {"qat_activations",
       [](Draft& draft) {
         return draft.is("qat", "none") ? std::nullopt : maybe(draft, 0.6, {"int8", "none"});
       }},
      {"lora_dropout",
       [](Draft& draft) {
         const bool may = draft.lora() && draft.is("qat", "none") && (!draft.prefers() || draft.rarely());
         return may ? maybe(draft, 0.3, {"0.1", "0.5"}) : std::nullopt;
       }},
      {"use_rslora", [](Draft& draft) { return flag(draft, 0.3, draft.lora()); }},
      {"target_modules", draw_target_modules},
      {"target_parameters", draw_target_parameters},
      {"modules_to_save", draw_modules_to_save},
      {"adapter_name_or_path",
       [](Draft& draft) { return draft.lora() ? maybe(draft, 0.15, {"adapter"}) : std::nullopt; }},
      {"dataset_format", draw_format},
      {"max_length",
       [](Draft& draft) {
         return Value(std::to_string(draft.dice.chance(0.8) ? draft.longest
                                     : draft.longest < 10   ? 4
                                                            : draft.longest * 2 / 3));
       }},
      {"max_target_length",
       [](Draft& draft) {
         if (!draft.encodes()) return maybe(draft, 0.05, {"0"});
         return maybe(draft, 0.6, {"0", "1", "5", "40", std::to_string(draft.longest)});
       }},
      {"packing",
       [](Draft& draft) {
         return flag(draft, 0.2, (!draft.attends_by_scores() && !draft.prefers()) || draft.rarely());
       }},
      {"pad_to_multiple_of",
       [](Draft& draft) {
         if (draft.is("packing", "true")) return Value();
         return draft.reaches() && !draft.is_long() ? Value("300") : maybe(draft, 0.2, {"0", "8", "16", "7"});
       }},
      {"cuda_graphs",
       [](Draft& draft) {
         const bool differs = draft.is("packing", "true") || draft.encodes() || draft.has_experts() ||
                              draft.of_several() || draft.prefers();
         return flag(draft, 0.3, draft.on_gpu() && (!differs || draft.rarely()));
       }},
      {"shuffle",
       [](Draft& draft) { return draft.dice.chance(0.25) ? Value(text_of(draft.dice.chance(0.1))) : std::nullopt; }},
      {"group_by_length",
       [](Draft& draft) {
         const bool may = !draft.is("packing", "true") && !draft.is("shuffle", "false") && !draft.prefers();
         return flag(draft, 0.25, may || draft.rarely());
       }},
      {"completion_only_loss",
       [](Draft& draft) {
         const bool has = draft.is("dataset_format", "prompt_completion") || draft.is("dataset_format", "alpaca");
         if (has && draft.encodes() && !draft.rarely()) return maybe(draft, 0.4, {"true"});
         return has ? maybe(draft, 0.4, {"true", "false"}) : std::nullopt;
       }},
      {"assistant_only_loss",
       [](Draft& draft) {
         return flag(draft, 0.5, draft.is("dataset_format", "messages") || draft.is("dataset_format", "sharegpt"));
       }},
      {"split_special_tokens", [](Draft& draft) { return flag(draft, 0.2, true); }},
      {"per_device_train_batch_size", draw_rows},
      {"per_device_eval_batch_size", draw_rows},
      {"gradient_accumulation_steps", draw_accumulation},
      {"max_steps", draw_steps},
      {"num_train_epochs", draw_epochs},
      {"learning_rate",
       [](Draft& draft) {
         return maybe(draft, 0.5, {"1.0e-3", "1.0e-4", "1.0e-6", "0"});
       }},
      {"lr_scheduler_type",
       [](Draft& draft) {
         return maybe(draft, 0.5, {"constant", "constant_with_warmup", "linear", "cosine"});
       }},
      {"warmup_steps",
       [](Draft& draft) {
         return maybe(draft, 0.3, {"0", "0.1", "2", "100", "1000000"});
       }},
      {"weight_decay",
       [](Draft& draft) {
         return maybe(draft, 0.3, {"0", "0.01", "0.1"});
       }},
      {"adam_beta1",
       [](Draft& draft) {
         return draft.adamw() || draft.is("optim", "lion") ? maybe(draft, 0.2, {"0", "0.8", "0.95"}) : std::nullopt;
       }},
      {"adam_beta2",
       [](Draft& draft) {
         return draft.adamw() || draft.is("optim", "lion") ? maybe(draft, 0.2, {"0.95", "0.99"}) : std::nullopt;
       }},
      {"adam_epsilon",
       [](Draft& draft) {
         return draft.adamw() ? maybe(draft, 0.2, {"1.0e-6", "1.0e-8"}) : std::nullopt;
       }},
      {"optimizer_in_backward",
       [](Draft& draft) {
         const bool excluded = draft.is("cuda_graphs", "true") || draft.computed() == "float16" ||
                               draft.number("gradient_accumulation_steps") > 1 || draft.of_several();
         return flag(draft, 0.3, !excluded || draft.rarely());
       }},
      {"offload_weights",
       [](Draft& draft) {
         const bool excluded = draft.is("cuda_graphs", "true") || draft.of_several();
         return flag(draft, 0.3, draft.on_gpu() && draft.lora() && !excluded);
       }},
      {"offload_optimizer",
       [](Draft& draft) {
         const bool keeps = !draft.is("optim", "sgd") && !draft.is("optim", "adafactor");
         return flag(draft, 0.4, draft.on_gpu() && !draft.lora() && keeps && !draft.of_several());
       }},
      {"max_grad_norm",
       [](Draft& draft) {
         if (draft.is("optimizer_in_backward", "true") && !draft.rarely()) return maybe(draft, 0.2, {"0"});
         return maybe(draft, 0.4, {"0", "0.5", "1"});
       }},
      {"gradient_checkpointing",
       [](Draft& draft) {
         const bool draws = draft.is("cuda_graphs", "true") && !draft.is("lora_dropout", "0");
         return flag(draft, 0.35, !draws || draft.rarely());
       }},
      {"loss_chunk_size",
       [](Draft& draft) {
         // Ten thousand micro-batches of a thousand chunks each take too long to play.
         const int64_t tokens = draft.number("per_device_train_batch_size") * draft.longest;
         if (draft.run.planned && tokens > 5'000) return maybe(draft, 0.5, {"0", "0", "1024", "2147483647"});
         return maybe(draft, 0.5, {"0", "0", "1", "7", "64", "1024", "2147483647"});
       }},
      {"seed",
       [](Draft& draft) {
         return maybe(draft, 0.5, {"0", "1", "7", "2147483647"});
       }},
      {"logging_steps",
       [](Draft& draft) {
         return maybe(draft, 0.5, {"1", "2", "3", "2147483647"});
       }},
      {"validation_file",
       [](Draft& draft) { return draft.run.validation.empty() ? std::nullopt : Value("validation.jsonl"); }},
      {"validation_split",
       [](Draft& draft) {
         return draft.run.validation.empty() ? maybe(draft, 0.2, {"0.1", "0.3", "0"}) : std::nullopt;
       }},
      {"eval_strategy", draw_evaluation},
      {"eval_steps",
       [](Draft& draft) {
         if (!draft.is("eval_strategy", "steps")) return Value();
         if (draft.reaches()) return Value("2147483647");
         return draft.is_long() ? Value(draft.dice.one_of<std::string>({"41", "67", "97", "150"}))
                                : maybe(draft, 0.8, {"1", "2", "2", "3", "0"});
       }},
      {"eval_on_start",
       [](Draft& draft) {
         return flag(draft, 0.5, !draft.run.validation.empty() || !draft.is("validation_split", "0"));
       }},
      {"predict_with_generate", draw_answers},
      {"generation_max_length",
       [](Draft& draft) {
         return draft.is("predict_with_generate", "true") ? maybe(draft, 0.5, {"0", "1", "7", "40", "150"})
                                                          : std::nullopt;
       }},
      {"save_strategy", draw_save_strategy},
      {"save_steps", draw_save_steps},
      {"load_best_model_at_end", [](Draft& draft) { return flag(draft, 0.2, draft.evaluates()); }},
      {"save_total_limit",
       [](Draft& draft) {
         if (!draft.saves() || draft.run.resume_at > 0) return Value();
         // Hundreds of checkpoints of tens of megabytes are gigabytes.
         return draft.is_long() ? Value(draft.dice.one_of<std::string>({"1", "2"}))
                                : maybe(draft, 0.3, {"0", "1", "2"});
       }},
      {"save_in_background",
       [](Draft& draft) {
         return draft.saves() && draft.dice.chance(0.3) ? Value(text_of(draft.dice.chance(0.2))) : std::nullopt;
       }},
      {"early_stopping_patience",
       [](Draft& draft) {
         return draft.evaluates() ? maybe(draft, 0.07, {"1", "2", "0", "2147483647"}) : std::nullopt;
       }},
      {"report_to",
       [](Draft& draft) {
         return maybe(draft, 0.15, {"tensorboard", "none"});
       }},
      {"resume_from_checkpoint",
       [](Draft& draft) { return draft.run.resume_at == 0 ? maybe(draft, 0.03, {"auto"}) : std::nullopt; }},
  };
  return table;
}

}  // namespace fathom::random
