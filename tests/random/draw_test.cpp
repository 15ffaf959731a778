// The generator of random runs knows every key and every word that a key takes, and draws the same run for the same
// numbers.
#include "tests/random/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "arch/families.h"
#include "base/error.h"
#include "base/json_value.h"
#include "config/describe.h"
#include "config/keys.h"
#include "config/load.h"
#include "tests/random/files.h"

namespace fathom::random {
namespace {

struct Setting {
  std::string key, value;
};

TEST(Draw, IsTheSameForTheSameNumbers) {
  for (uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(draw(1, number, {}), draw(1, number, {}));
    EXPECT_NE(draw(1, number, {}), draw(2, number, {}));
  }
}

TEST(Draw, GivesEveryKeyThatThereIs) {
  std::set<std::string> given;
  for (uint64_t number = 0; number < 2000; ++number) {
    for (const auto& [key, value] : draw(1, number, {"H100"}).keys) given.insert(key);
  }
  for (const config::Key& key : config::keys()) EXPECT_TRUE(given.contains(std::string(key.name))) << key.name;
}

// But those of keys that mean something to several processes alone: runs that are drawn are of one.
std::vector<std::string> words_of_one_process(const config::Key& key) {
  const bool of_several = key.name == "strategy" || key.name == "reshard_after_forward";
  return of_several ? std::vector<std::string>() : words_of(key);
}

// Of keys that take one of some words, and of flags.
TEST(Draw, GivesEveryWordThatAKeyTakes) {
  std::set<std::string> given;
  for (uint64_t number = 0; number < 4000; ++number) {
    for (const auto& [key, value] :
         draw(1, number, number % 2 == 0 ? std::vector<std::string>{} : std::vector<std::string>{"H100"}).keys) {
      given.insert(key + ": " + value);
    }
  }
  for (const config::Key& key : config::keys()) {
    for (const std::string& word : words_of_one_process(key)) {
      EXPECT_TRUE(given.contains(std::string(key.name) + ": " + word)) << key.name << ": " << word;
    }
  }
}

// Of numbers, what the farthest draws reach; of what costs most to plan, that it is drawn at all.
TEST(Draw, ReachesFromTheLeastToTheMostThatAMachinePlays) {
  std::map<std::string, std::pair<int64_t, int64_t>> reached;
  std::set<std::string> families, given;
  int64_t most_lines = 0, longest_step = 0;
  int planned = 0, of_several = 0;
  constexpr int kDraws = 4000;
  for (uint64_t number = 0; number < kDraws; ++number) {
    const RandomRun run =
        draw(2, number, number % 2 == 0 ? std::vector<std::string>{} : std::vector<std::string>{"H100"});
    families.insert(run.model.at("model_type").get<std::string>());
    planned += run.planned ? 1 : 0;
    of_several += run.of_several() && !run.planned ? 1 : 0;
    most_lines = std::max<int64_t>(most_lines, std::ssize(run.train));
    const auto number_of = [&](const char* key) { return static_cast<int64_t>(std::stoll(run.value(key))); };
    longest_step = std::max(
        longest_step,
        std::min<int64_t>(number_of("gradient_accumulation_steps"),
                          std::ssize(run.train) / std::max<int64_t>(1, number_of("per_device_train_batch_size"))));
    for (const auto& [key, value] : run.keys) {
      given.insert(key + ": " + value);
      if (!config::find_key(key)->type.starts_with("whole number")) continue;
      const int64_t drawn = std::stoll(value);
      auto& [least, most] = reached.try_emplace(key, drawn, drawn).first->second;
      least = std::min(least, drawn);
      most = std::max(most, drawn);
    }
  }
  struct Bounds {
    const char* key;
    int64_t least, most;
  };
  for (const auto& [key, least, most] :
       {Bounds{"gradient_accumulation_steps", 1, 4'000}, Bounds{"per_device_train_batch_size", 1, 200},
        Bounds{"per_device_eval_batch_size", 1, 200}, Bounds{"max_length", 4, 2'000}, Bounds{"num_processes", 1, 50},
        Bounds{"lora_r", 1, 1'000}, Bounds{"loss_chunk_size", 0, 2'147'483'647}, Bounds{"num_threads", 0, 64},
        Bounds{"max_steps", 1, 1'000}, Bounds{"pad_to_multiple_of", 0, 300}, Bounds{"seed", 0, 2'147'483'647},
        Bounds{"logging_steps", 1, 2'147'483'647}, Bounds{"dp_replicate_size", 1, 2}}) {
    EXPECT_LE(reached[key].first, least) << key;
    EXPECT_GE(reached[key].second, most) << key;
  }
  EXPECT_GE(longest_step, 2'000);
  EXPECT_GE(most_lines, 4'000);
  EXPECT_GE(planned, kDraws / 20);
  EXPECT_GE(of_several, kDraws / 100);
  for (const char* setting : {"predict_with_generate: true", "cuda_graphs: true", "offload_weights: true",
                              "offload_optimizer: true", "optimizer_in_backward: true", "fp8: true", "strategy: fsdp",
                              "strategy: ddp", "reshard_after_forward: false", "num_train_epochs: 0.001"}) {
    EXPECT_TRUE(given.contains(setting)) << setting;
  }
  for (const arch::Family& family : arch::families()) EXPECT_TRUE(families.contains(std::string(family.model_type)));
}

bool is_taken(const RandomRun& run) {
  try {
    config::parse_config(to_yaml(run), "run.yaml", {});
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

// Whether some draw can have both.
bool meet(const Setting& a, const Setting& b, const std::vector<RandomRun>& draws) {
  return std::any_of(draws.begin(), draws.end(), [&](RandomRun run) {
    run.keys[a.key] = a.value;
    run.keys[b.key] = b.value;
    if (run.is("loss_type", "exo_pair")) run.keys["label_smoothing"] = "0.1";  // which it cannot be without
    return is_taken(run);
  });
}

// A line of docs/config.md's rules.
struct Rule {
  std::string of;               // the key that is refused
  std::set<std::string> names;  // all keys of the line
  bool only_with = false;       // some value of the others, without which the key is refused
};

std::vector<Rule> rules() {
  const std::regex word("[a-z_0-9]+");
  std::vector<Rule> all;
  std::istringstream page(config::keys_page().substr(config::keys_page().find("## Rules between keys")));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("- ")) continue;
    Rule& rule = all.emplace_back();
    rule.only_with = line.find(" only with ") != std::string::npos;
    for (auto found = std::sregex_iterator(line.begin(), line.end(), word); found != std::sregex_iterator(); ++found) {
      if (config::find_key(found->str()) == nullptr) continue;
      if (rule.of.empty()) rule.of = found->str();
      rule.names.insert(found->str());
    }
  }
  return all;
}

// The key, and those that it is only taken with, and those that these are only taken with.
std::set<std::string> needed_by(const std::string& key, const std::vector<Rule>& rules) {
  std::set<std::string> needed = {key};
  for (size_t before = 0; before != needed.size();) {
    before = needed.size();
    for (const Rule& rule : rules) {
      if (rule.only_with && needed.contains(rule.of)) needed.insert(rule.names.begin(), rule.names.end());
    }
  }
  return needed;
}

// What the two need has a key in common, or a rule names a key of either.
bool is_told(const std::string& a, const std::string& b, const std::vector<Rule>& rules) {
  const std::set<std::string> of_a = needed_by(a, rules), of_b = needed_by(b, rules);
  const auto holds_one_of = [](const std::set<std::string>& names, const std::set<std::string>& needed) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return needed.contains(name); });
  };
  return holds_one_of(of_a, of_b) || std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
           return holds_one_of(rule.names, of_a) && holds_one_of(rule.names, of_b);
         });
}

TEST(Draw, TwoSettingsThatAreNeverTakenTogetherAreDocumented) {
  std::vector<RandomRun> draws;
  for (uint64_t number = 0; draws.size() < 400; ++number) {
    RandomRun run = draw(1, number, number % 2 == 0 ? std::vector<std::string>{} : std::vector<std::string>{"H100"});
    if (is_taken(run)) draws.push_back(std::move(run));
  }
  std::vector<Setting> settings;
  for (const config::Key& key : config::keys()) {
    for (const std::string& word : words_of_one_process(key)) settings.push_back({std::string(key.name), word});
  }
  const auto documented = rules();
  int never = 0;
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t j = i + 1; j < settings.size(); ++j) {
      const Setting &a = settings[i], &b = settings[j];
      if (a.key == b.key || meet(a, b, draws)) continue;
      ++never;
      EXPECT_TRUE(is_told(a.key, b.key, documented))
          << a.key << ": " << a.value << " with " << b.key << ": " << b.value;
    }
  }
  EXPECT_GT(never, 20);  // the rules are there
}

TEST(Draw, ComesBackFromJson) {
  for (uint64_t number = 0; number < 20; ++number) {
    const RandomRun run = draw(1, number, {"H100"});
    EXPECT_EQ(run_from_json(Json::parse(to_json(run).dump())), run);
  }
}

}  // namespace
}  // namespace fathom::random
