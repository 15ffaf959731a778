// Puts a run together: files first, then key by key.
#include "tests/random/draw.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json_value.h"
#include "config/devices.h"
#include "config/keys.h"
#include "tests/dice.h"
#include "tests/random/draw_keys.h"
#include "tests/random/draw_model.h"

namespace fathom::random {
namespace {

using Words = std::vector<std::string>;

constexpr int64_t kByteTokens = 259;   // 256 bytes, BOS, EOS, padding
constexpr int64_t kMostTokens = 5000;  // that a tokenizer of so few may be extended to

// Any value of the key, whatever stands beside it; "null" where the type does not say one.
std::string any_value(const config::Key& key, Dice& dice) {
  if (key.type.starts_with("whole number")) return std::to_string(dice.between(0, 5));
  if (key.type.starts_with("number")) return dice.one_of<std::string>({"0", "0.25", "1", "1.5"});
  const Words words = words_of(key);
  return words.empty() ? "null" : dice.one_of(words);
}

void check_table() {
  std::set<std::string_view> known;
  for (const KeyDraw& each : key_draws()) known.insert(each.key);
  for (const config::Key& key : config::keys()) {
    if (known.erase(key.name) == 0) {
      throw Error("the generator of random runs draws no value for " + std::string(key.name),
                  "add it to tests/random/draw.cpp");
    }
  }
  if (!known.empty())
    throw Error("the generator of random runs draws " + std::string(*known.begin()) + ", which is no key");
}

void draw_files(Draft& draft) {
  Dice& dice = draft.dice;
  RandomRun& run = draft.run;
  run.model = draw_model(dice);
  run.whole = !in_whole(run.model).is_null() && dice.chance(0.4);
  const int64_t vocabulary = run.model["vocab_size"].get<int64_t>();
  if (draft.stored_in_codes() || dice.chance(0.55)) {
    run.weights = run.model["dtype"].get<std::string>();
    run.shards = dice.chance(0.2) ? 2 : 1;
    const bool may_int4 = draft.fits_int4() || draft.rarely();
    const bool plain = !draft.stored_in_codes();
    if (plain && !draft.has_experts() && (!draft.is_gpt2() || draft.rarely()) && dice.chance(0.2))
      run.quantized = dice.one_of<std::string>({"nf4", "int8", "fp8", may_int4 ? "int4" : "nf4"});
  }
  run.tokenizer = vocabulary >= kByteTokens && dice.chance(0.5);
  if (run.tokenizer && vocabulary < kMostTokens && dice.chance(0.1))
    run.added_tokens = vocabulary - kByteTokens + dice.between(1, 9);
  draft.longest = dice.one_of<int64_t>({9, 17, 33, 33, 64, 65, 129, 200, 257});
  run.planned = dice.chance(0.1);
  // Long ones exceed what a dry run plays step by step.
  if (run.planned) {
    if (dice.chance(0.2)) draft.longest = dice.one_of<int64_t>({512, 1024, 2048});
    run.train = draw_samples(dice.of_any_size(100, draft.reach == Reach::kFar ? 5000 : 400), draft.longest, dice);
  } else {
    run.train = draw_samples(dice.chance(0.06) ? dice.between(200, 1000) : dice.between(2, 30), draft.longest, dice);
  }
  if (dice.chance(0.5))
    run.validation =
        draw_samples(dice.between(1, 10), dice.chance(0.7) ? draft.longest : dice.between(2, draft.longest), dice);
  if (!run.encodes() || dice.chance(0.6)) return;
  for (std::vector<Sample>* samples : {&run.train, &run.validation}) {  // answers longer than what is asked
    for (Sample& sample : *samples) std::swap(sample.length, sample.counted);
  }
}

const std::map<std::string, config::GpuSpec>& known_gpus() {
  static const auto* gpus = new std::map(config::load_gpus(FATHOM_SOURCE_DIR "/configs/gpus.yaml"));
  return *gpus;
}

const std::map<std::string, std::string>& defaults() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> values;
    for (const config::Key& key : config::keys()) values[std::string(key.name)] = key.get(config::RunConfig());
    return values;
  }();
  return all;
}

}  // namespace

std::vector<std::string> words_of(const config::Key& key) {
  if (key.type == "true or false") return {"true", "false"};
  if (key.is_text || key.type.find("list") != std::string::npos || key.type.find("number") != std::string::npos ||
      key.type.find("size") != std::string::npos)
    return {};
  std::vector<std::string> words;
  for (size_t start = 0; start < key.type.size();) {
    const size_t end = std::min(key.type.find(", ", start), key.type.size());
    words.push_back(key.type.substr(start, end - start));
    start = end + 2;
  }
  return words;
}

std::vector<std::string> phantom_gpus() {
  std::vector<std::string> names;
  for (const auto& [name, gpu] : known_gpus()) {
    if (config::is_supported(gpu.compute_capability)) names.push_back(name);
  }
  return names;
}

const std::string& RandomRun::value(const std::string& key) const {
  const auto found = keys.find(key);
  return found != keys.end() ? found->second : defaults().at(key);
}

RandomRun draw(uint64_t seed, uint64_t number, const std::vector<std::string>& gpus, Reach reach) {
  check_table();
  NumberHash both;
  both.add(seed);
  both.add(number);
  Dice dice(both.value());
  Draft draft{{}, dice};
  draft.reach = reach;
  if (!gpus.empty()) draft.run.gpu = dice.one_of(gpus);
  draft.multiplies_in_bf16 = gpus.empty() || config::has_bf16(known_gpus().at(draft.run.gpu).compute_capability);
  draft.multiplies_in_fp8 = !gpus.empty() && config::has_fp8(known_gpus().at(draft.run.gpu).compute_capability);
  draw_files(draft);
  if (!draft.run.planned && dice.chance(0.15)) draft.run.resume_at = dice.between(1, 3);
  for (const KeyDraw& each : key_draws()) {
    if (const std::optional<std::string> value = each.value(draft)) draft.run.keys[std::string(each.key)] = *value;
  }
  RandomRun& run = draft.run;
  if (run.resume_at > 0) run.keys["max_steps"] = std::to_string(run.resume_at + dice.between(1, 4));
  // A few break the rules, to see what is said.
  if (dice.chance(0.04)) {
    const config::Key& key = config::keys()[dice.below(config::keys().size())];
    const std::string value = any_value(key, dice);
    if (value != "null") run.keys[std::string(key.name)] = value;
  }
  return run;
}

namespace {

Json to_json(const std::vector<Sample>& samples) {
  Json list = Json::array();
  for (const Sample& sample : samples) list.push_back({sample.length, sample.counted});
  return list;
}

std::vector<Sample> samples_from_json(const Json& list) {
  std::vector<Sample> samples;
  for (const Json& pair : list) samples.push_back({pair.at(0).get<int64_t>(), pair.at(1).get<int64_t>()});
  return samples;
}

}  // namespace

Json to_json(const RandomRun& run) {
  return {{"keys", run.keys},
          {"model", run.model},
          {"weights", run.weights},
          {"shards", run.shards},
          {"quantized", run.quantized},
          {"whole", run.whole},
          {"tokenizer", run.tokenizer},
          {"added_tokens", run.added_tokens},
          {"train", to_json(run.train)},
          {"validation", to_json(run.validation)},
          {"resume_at", run.resume_at},
          {"gpu", run.gpu},
          {"planned", run.planned}};
}

RandomRun run_from_json(const Json& value) {
  RandomRun run;
  run.keys = value.at("keys").get<std::map<std::string, std::string>>();
  run.model = value.at("model");
  run.weights = value.at("weights");
  run.shards = value.at("shards");
  run.quantized = value.at("quantized");
  run.whole = value.value("whole", false);
  run.tokenizer = value.at("tokenizer");
  run.added_tokens = value.at("added_tokens");
  run.train = samples_from_json(value.at("train"));
  run.validation = samples_from_json(value.at("validation"));
  run.resume_at = value.at("resume_at");
  run.gpu = value.at("gpu");
  run.planned = value.value("planned", false);
  return run;
}

}  // namespace fathom::random
