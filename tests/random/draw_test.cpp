// The generator of random runs knows every key and every word that a key takes, and draws the same run for the same
// numbers.
#include "tests/random/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
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
  for (uint64_t number = 0; draws.size() < 300; ++number) {
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
