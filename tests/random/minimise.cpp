// Smaller runs, one change at a time.
#include "tests/random/minimise.h"

#include <algorithm>

namespace fathom::random {
namespace {

using Fails = std::function<bool(const RandomRun&)>;

class Minimiser {
 public:
  Minimiser(RandomRun run, const Fails& fails, int most) : run_(std::move(run)), fails_(fails), left_(most) {}

  RandomRun result() {
    bool changed = true;
    while (changed && left_ > 0) {
      changed = drop_files();
      changed = drop_keys() || changed;
      changed = shrink_samples(&RandomRun::validation, 0) || changed;
      changed = shrink_samples(&RandomRun::train, 1) || changed;
      changed = shrink_lengths(&RandomRun::train) || changed;
      changed = shrink_lengths(&RandomRun::validation) || changed;
      changed = shrink_numbers() || changed;
      changed = shrink_model() || changed;
    }
    return run_;
  }

 private:
  template <typename Change>
  bool try_change(const Change& change) {
    RandomRun smaller = run_;
    change(smaller);
    if (smaller == run_ || left_ <= 0) return false;
    --left_;
    if (!fails_(smaller)) return false;
    run_ = std::move(smaller);
    return true;
  }

  bool drop_files() {
    bool changed = try_change([](RandomRun& run) { run.resume_at = 0; });
    changed = try_change([](RandomRun& run) {
                if (run.quantized.empty()) return;
                run.quantized.clear();
                run.keys["model_name_or_path"] = "model";
              }) ||
              changed;
    changed = try_change([](RandomRun& run) {
                if (run.weights.empty() || !run.quantized.empty()) return;
                run.weights.clear();
                run.shards = 1;
                run.keys["random_init"] = "true";
              }) ||
              changed;
    changed = try_change([](RandomRun& run) { run.shards = 1; }) || changed;
    changed = try_change([](RandomRun& run) { run.whole = false; }) || changed;
    changed = try_change([](RandomRun& run) { run.added_tokens = 0; }) || changed;
    return try_change([](RandomRun& run) {
             run.tokenizer = false;
             run.added_tokens = 0;
             for (const char* key : {"dataset_format", "completion_only_loss", "assistant_only_loss", "objective",
                                     "beta", "loss_type", "label_smoothing", "simpo_gamma"})
               run.keys.erase(key);
           }) ||
           changed;
  }

  bool drop_keys() {
    bool changed = false;
    const auto keys = run_.keys;  // a copy: run_ changes
    for (const auto& [key, value] : keys) {
      if (key == "model_name_or_path" || key == "train_file" || key == "output_dir" || key == "device") continue;
      changed = try_change([&](RandomRun& run) { run.keys.erase(key); }) || changed;
    }
    changed = try_change([](RandomRun& run) { run.keys["train_file"] = "train.jsonl"; }) || changed;
    return changed;
  }

  // Halves that can go, then single lines.
  bool shrink_samples(std::vector<Sample> RandomRun::*samples, size_t least) {
    bool changed = false;
    for (size_t step = std::max<size_t>(1, (run_.*samples).size() / 2); step > 0; step /= 2) {
      for (size_t at = 0; at < (run_.*samples).size();) {
        const bool gone = try_change([&](RandomRun& run) {
          auto& all = run.*samples;
          if (all.size() < least + step) return;
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(at),
                    all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), at + step)));
        });
        changed = gone || changed;
        if (!gone) at += step;
      }
    }
    return changed;
  }

  bool shrink_lengths(std::vector<Sample> RandomRun::*samples) {
    bool changed = false;
    for (size_t i = 0; i < (run_.*samples).size() && i < 8; ++i) {
      for (const int64_t least : {int64_t{2}, (run_.*samples)[i].length / 2}) {
        changed = try_change([&](RandomRun& run) {
                    Sample& sample = (run.*samples)[i];
                    if (least < 2 || least >= sample.length) return;
                    sample.length = least;
                    sample.counted = std::min(sample.counted, least);
                  }) ||
                  changed;
      }
      changed = try_change([&](RandomRun& run) { (run.*samples)[i].counted = (run.*samples)[i].length; }) || changed;
    }
    return changed;
  }

  bool shrink_numbers() {
    bool changed = false;
    for (const char* key : {"max_steps", "gradient_accumulation_steps", "per_device_train_batch_size",
                            "per_device_eval_batch_size", "lora_r", "save_steps", "eval_steps"}) {
      for (const char* value : {"1", "2"}) {
        changed = try_change([&](RandomRun& run) {
                    const auto found = run.keys.find(key);
                    if (found != run.keys.end() && std::stoll(found->second) > std::stoll(value)) found->second = value;
                  }) ||
                  changed;
      }
    }
    return changed;
  }

  bool shrink_model() {
    bool changed = false;
    const auto number = [&](const char* key, int64_t value) {
      return try_change([&](RandomRun& run) {
        if (run.model.contains(key) && run.model[key].is_number() && run.model[key].get<int64_t>() > value)
          run.model[key] = value;
      });
    };
    if (run_.encodes()) return shrink_encoder_decoder(number);
    if (run_.model["model_type"] == "gpt2") return shrink_gpt2(number);
    for (const int64_t layers : {1, 2}) changed = number("num_hidden_layers", layers) || changed;
    for (const int64_t heads : {1, 2}) {
      changed = try_change([&](RandomRun& run) {
                  if (run.model["num_attention_heads"].get<int64_t>() <= heads) return;
                  run.model["num_attention_heads"] = run.model["num_key_value_heads"] = heads;
                  if (!run.model.contains("head_dim")) run.model["head_dim"] = 16;
                }) ||
                changed;
    }
    for (const int64_t width : {16, 32, 64}) {
      changed = number("intermediate_size", width) || changed;
      changed = try_change([&](RandomRun& run) {
                  if (run.model["hidden_size"].get<int64_t>() <= width) return;
                  if (!run.model.contains("head_dim")) run.model["head_dim"] = 16;
                  run.model["hidden_size"] = width;
                }) ||
                changed;
      changed = number("head_dim", width) || changed;
    }
    changed = number("vocab_size", run_.tokenizer ? 301 : 101) || changed;
    for (const char* key : {"rope_parameters", "use_sliding_window", "attention_bias", "mlp_bias"}) {
      changed = try_change([&](RandomRun& run) { run.model.erase(key); }) || changed;
    }
    changed = try_change([&](RandomRun& run) {
                run.model["model_type"] = "llama";
                run.model["architectures"] = {"LlamaForCausalLM"};
                for (const char* key : {"sliding_window", "use_sliding_window", "max_window_layers"})
                  run.model.erase(key);
              }) ||
              changed;
    return changed;
  }

  template <typename Number>
  bool shrink_encoder_decoder(const Number& number) {
    bool changed = false;
    for (const int64_t few : {1, 2}) {
      for (const char* key : {"num_layers", "num_decoder_layers", "num_heads"}) changed = number(key, few) || changed;
    }
    for (const int64_t width : {16, 32, 64}) {
      for (const char* key : {"d_model", "d_kv", "d_ff"}) changed = number(key, width) || changed;
    }
    changed = number("vocab_size", run_.tokenizer ? 301 : 101) || changed;
    changed = try_change([](RandomRun& run) { run.model["dropout_rate"] = 0; }) || changed;
    for (const char* key : {"feed_forward_proj", "relative_attention_num_buckets", "relative_attention_max_distance",
                            "scale_decoder_outputs", "decoder_start_token_id"}) {
      changed = try_change([&](RandomRun& run) { run.model.erase(key); }) || changed;
    }
    return changed;
  }

  template <typename Number>
  bool shrink_gpt2(const Number& number) {
    bool changed = number("vocab_size", run_.tokenizer ? 301 : 101);
    for (const int64_t few : {1, 2}) {
      changed = number("n_layer", few) || changed;
      changed = try_change([&](RandomRun& run) {
                  const int64_t heads = run.model["n_head"].get<int64_t>();
                  if (heads <= few) return;
                  run.model["n_embd"] = run.model["n_embd"].get<int64_t>() / heads * few;
                  run.model["n_head"] = few;
                }) ||
                changed;
    }
    for (const int64_t width : {16, 32, 64}) changed = number("n_inner", width) || changed;
    return try_change([](RandomRun& run) {
             for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) run.model[key] = 0;
           }) ||
           changed;
  }

  RandomRun run_;
  const Fails& fails_;
  int left_;
};

}  // namespace

RandomRun minimise(RandomRun run, const Fails& fails, int most) {
  return Minimiser(std::move(run), fails, most).result();
}

}  // namespace fathom::random
