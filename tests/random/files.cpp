// Files as a user would have them, with random contents of the sizes that a run says.
#include "tests/random/files.h"

#include "arch/architecture.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/dice.h"
#include "tests/random/draw_model.h"
#include "tests/random/weights.h"
#include "tokenizer/byte_alphabet.h"

namespace fathom::random {

using fathom::testing::Dice;

namespace {

namespace fs = std::filesystem;

// ---- The tokenizer ----

constexpr const char* kTemplate =
    "{% for message in messages %}<{{ message.role }}>{% if message.role == 'assistant' %}{% generation %}"
    "{{ message.content }}</s>{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}";

void write_tokenizer(const RandomRun& run, const fs::path& folder) {
  Json vocabulary = Json::object(), added = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    vocabulary[tokenizer::spelling_of({&text, 1})] = byte;
  }
  const auto add = [&](const std::string& content) {
    added.push_back({{"id", 256 + added.size()},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  };
  for (const char* special : {"<s>", "</s>", "<pad>"}) add(special);
  for (int64_t i = 0; i < run.added_tokens; ++i) add("<added_" + std::to_string(i) + ">");
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  write_file_atomically(folder / "tokenizer.json",
                        format_json({{"version", "1.0"},
                                     {"truncation", nullptr},
                                     {"padding", nullptr},
                                     {"added_tokens", added},
                                     {"normalizer", nullptr},
                                     {"pre_tokenizer", bytes},
                                     {"post_processor", nullptr},
                                     {"decoder", bytes},
                                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}));
  write_file_atomically(
      folder / "tokenizer_config.json",
      format_json({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"chat_template", kTemplate}}));
}

// ---- The data ----

std::string letters(int64_t count, Dice& dice) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += static_cast<char>('a' + dice.below(26));
  return text;
}

// The first token never counts, so what counts lies at the end.
Json token_ids(const Sample& sample, int64_t vocabulary, Dice& dice) {
  Json ids = Json::array(), labels = Json::array();
  for (int64_t i = 0; i < sample.length; ++i) {
    ids.push_back(dice.below(static_cast<uint64_t>(vocabulary)));
    labels.push_back(i < sample.length - sample.counted ? Json(-100) : ids.back());
  }
  if (sample.counted == sample.length) return {{"input_ids", ids}};
  return {{"input_ids", ids}, {"labels", labels}};
}

// Tokens that the format, or the chat template above, writes around the two parts of a line.
int64_t written_around(const std::string& format) {
  if (format == "alpaca") return 143;
  return format == "messages" || format == "sharegpt" ? 18 : 1;
}

// A source and a target, where texts are closed by a token.
Json pair_of(const RandomRun& run, const Sample& sample, Dice& dice) {
  const int64_t source = std::max<int64_t>(1, sample.length), target = std::max<int64_t>(1, sample.counted);
  if (const std::string& format = run.value("dataset_format"); format == "prompt_completion" || format == "alpaca") {
    const std::string asked = letters(std::max<int64_t>(1, source - written_around(format)), dice);
    const std::string said = letters(std::max<int64_t>(1, target - 1), dice);
    if (format == "alpaca") return {{"instruction", asked}, {"output", said}};
    return {{"prompt", asked}, {"completion", said}};
  }
  const auto vocabulary = run.model["vocab_size"].get<uint64_t>();
  Json ids = Json::array(), labels = Json::array();
  for (int64_t i = 0; i < source; ++i) ids.push_back(dice.below(vocabulary));
  for (int64_t i = 0; i < target; ++i) labels.push_back(dice.below(vocabulary));
  if (dice.chance(0.1)) labels.push_back(-100);  // as data that were padded have it
  return {{"input_ids", ids}, {"labels", labels}};
}

// Two answers, the longer of which makes the sample as long as it is.
Json preference_of(const Sample& sample, Dice& dice) {
  const int64_t ours = sample.length - 1, said = std::clamp<int64_t>(sample.counted, 1, std::max<int64_t>(1, ours - 1));
  std::string longer = letters(said, dice), shorter = letters(dice.between(1, said), dice);
  if (dice.chance(0.5)) std::swap(longer, shorter);
  return {{"prompt", letters(std::max<int64_t>(1, ours - said), dice)}, {"chosen", longer}, {"rejected", shorter}};
}

// Of about as many tokens as the sample says, what the format writes between included.
Json line_of(const RandomRun& run, const Sample& sample, Dice& dice) {
  const std::string& format = run.value("dataset_format");
  if (run.is("objective", "dpo") || run.is("objective", "simpo")) return preference_of(sample, dice);
  const bool is_pair = format == "prompt_completion" || format == "alpaca" || format == "input_ids" || format == "auto";
  if (run.encodes() && is_pair) return pair_of(run, sample, dice);
  const int64_t ours = sample.length - written_around(format);
  const int64_t said = std::clamp<int64_t>(sample.counted, 1, std::max<int64_t>(1, ours - 1));
  const int64_t asked = std::max<int64_t>(1, ours - said);
  if (format == "text") return {{"text", letters(asked + said, dice)}};
  if (format == "prompt_completion") return {{"prompt", letters(asked, dice)}, {"completion", letters(said, dice)}};
  if (format == "alpaca") return {{"instruction", letters(asked, dice)}, {"output", letters(said, dice)}};
  if (format == "messages") {
    return {{"messages",
             {{{"role", "user"}, {"content", letters(asked, dice)}},
              {{"role", "assistant"}, {"content", letters(said, dice)}}}}};
  }
  if (format == "sharegpt") {
    return {
        {"conversations",
         {{{"from", "human"}, {"value", letters(asked, dice)}}, {{"from", "gpt"}, {"value", letters(said, dice)}}}}};
  }
  return token_ids(sample, run.model["vocab_size"].get<int64_t>(), dice);
}

std::vector<std::string> lines_of(const RandomRun& run, const std::vector<Sample>& samples, Dice& dice) {
  std::vector<std::string> lines;
  for (const Sample& sample : samples) lines.push_back(line_of(run, sample, dice).dump() + "\n");
  return lines;
}

std::string joined(const std::vector<std::string>& lines, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) text += lines[i];
  return text;
}

// Of a run that makes the adapter which this one continues: one step of the same adapters, on the CPU.
std::string adapter_yaml(const RandomRun& run) {
  std::string yaml = "output_dir: adapter\ndevice: cpu\nmax_steps: 1\nsave_strategy: \"no\"\n";
  for (const char* key :
       {"model_name_or_path", "random_init", "method", "lora_r", "lora_alpha", "use_rslora", "target_modules",
        "target_parameters", "modules_to_save", "load_in_8bit", "load_in_4bit", "load_in_fp8", "objective",
        "train_file", "dataset_format", "max_length", "max_target_length"}) {
    if (run.keys.contains(key)) yaml += std::string(key) + ": " + run.keys.at(key) + "\n";
  }
  return yaml;
}

}  // namespace

std::string to_yaml(const RandomRun& run) {
  std::string yaml;
  for (const auto& [key, value] : run.keys) yaml += key + ": " + value + "\n";
  return yaml;
}

void write_files(const RandomRun& run, const fs::path& folder) {
  Dice dice(1);
  const fs::path model = folder / "model";
  fs::create_directories(model);
  const Json config = run.whole ? in_whole(run.model) : run.model;
  write_file_atomically(model / "config.json", format_json(config));
  if (!run.weights.empty()) {
    write_weights(arch::parse_architecture(config, "config.json"), dtype_from_name(run.weights),
                  static_cast<size_t>(run.shards), model, dice);
  }
  if (run.tokenizer) write_tokenizer(run, model);
  const std::vector<std::string> train = lines_of(run, run.train, dice);
  const size_t half = (train.size() + 1) / 2;
  write_file_atomically(folder / "train.jsonl", joined(train, 0, train.size()));
  write_file_atomically(folder / "part-0.jsonl", joined(train, 0, half));
  write_file_atomically(folder / "part-1.jsonl", joined(train, half, train.size()));
  const std::vector<std::string> validation = lines_of(run, run.validation, dice);
  if (!validation.empty()) write_file_atomically(folder / "validation.jsonl", joined(validation, 0, validation.size()));
  write_file_atomically(folder / "run.yaml", to_yaml(run));
  if (run.keys.contains("adapter_name_or_path")) write_file_atomically(folder / "adapter.yaml", adapter_yaml(run));
}

}  // namespace fathom::random
