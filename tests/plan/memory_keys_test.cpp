// That a search for what fits knows every key of a config: a new one must be declared, and what is declared is true.
#include "plan/advice/memory_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "config/checks.h"
#include "config/keys.h"
#include "plan/advice/techniques.h"
#include "tests/plan/llama_8b.h"

namespace fathom::plan::memory_keys_test {
namespace {

using config::RunConfig;
using ::testing::IsSubsetOf;

std::set<std::string> declared(MemoryKey role) {
  std::set<std::string> names;
  for (const config::Key& key : config::keys()) {
    if (memory_key(key.name) == role) names.emplace(key.name);
  }
  return names;
}

TEST(MemoryKeys, EveryKeyIsDeclared) {
  for (const config::Key& key : config::keys()) {
    EXPECT_TRUE(memory_key(key.name))
        << key.name
        << " is new: say in lib/plan/advice/memory_keys.cpp whether a search sets it (and add its technique), "
        << "whether it is part of the question, or whether it changes no byte";
  }
  EXPECT_EQ(memory_key("no_such_key"), std::nullopt);
}

Target gpu() {
  Target target;
  target.device = config::Device::kCuda;
  target.compute_capability = "9.0";
  target.capacity_bytes = int64_t{80} << 30;
  target.gpus_per_node = 2;
  return target;
}

// What the techniques of the run set, one after the other, group by group, in all ways.
void collect(const std::vector<Technique>& rows, size_t from, const RunConfig& run, const RunConfig& origin,
             std::set<std::string>& set) {
  if (from == rows.size()) {
    for (const config::Key& key : config::keys()) {
      if (key.get(run) != key.get(origin) && config::applies(key.name, run)) set.emplace(key.name);
    }
    return;
  }
  size_t next = from;
  while (next < rows.size() && rows[next].group == rows[from].group) ++next;
  for (size_t row = from; row < next; ++row) {
    if (const auto changed = rows[row].apply(run)) collect(rows, next, *changed, origin, set);
  }
}

// So that "nothing fits" is said of each: a key that is declared as searched is set by a technique of some run, and
// techniques set no other.
TEST(MemoryKeys, WhatIsSearchedIsWhatTechniquesSet) {
  std::vector<RunConfig> runs(5);
  runs[1].method = config::Method::kLora;
  runs[1].load_in_fp8 = true;
  runs[1].eval_strategy = config::Cadence::kEpoch;
  runs[2].num_processes = 4;
  runs[2].strategy = config::Strategy::kFsdp;
  runs[2].dp_shard_size = 4;
  runs[3].cuda_graphs = true;
  runs[4].fp16 = true;
  std::set<std::string> set;
  const arch::Architecture architecture = testing::llama_8b();
  for (const RunConfig& run : runs) collect(techniques(arch::resolve(run, architecture), gpu()), 0, run, run, set);
  EXPECT_EQ(set, declared(MemoryKey::kSearched));
}

// A key that was forgotten here is proposed without a word, and one that has run is called untried.
TEST(MemoryKeys, UntriedAreThoseThatNoGpuHasRun) {
  const std::string page = read_file(FATHOM_SOURCE_DIR "/docs/gpu-claims.md");
  const auto claim_of = [&](const std::string& key) {
    const size_t row = page.find("| losses by " + key + ",");
    return row == std::string::npos ? std::string() : page.substr(row, page.find('\n', row) - row);
  };
  RunConfig all;
  all.offload_optimizer = all.offload_weights = all.optimizer_in_backward = true;
  const std::vector<std::string_view> untried = untried_on_gpus(all);
  for (const std::string key : {"offload_optimizer", "offload_weights", "optimizer_in_backward"}) {
    const std::string claim = claim_of(key);
    ASSERT_NE(claim, "") << key << " has no row in docs/gpu-claims.md";
    const bool never = claim.find("not run on a GPU") != std::string::npos;
    EXPECT_EQ(never, std::find(untried.begin(), untried.end(), key) != untried.end()) << claim;
  }
  EXPECT_THAT(untried_on_gpus(RunConfig()), ::testing::IsEmpty());
  // What a later turn is for: its techniques set such keys.
  RunConfig lora;
  lora.method = config::Method::kLora;
  for (const RunConfig& run : {RunConfig(), lora}) {
    for (const Technique& row : techniques(arch::resolve(run, testing::llama_8b()), gpu())) {
      const auto changed = row.apply(run);
      if (!changed) continue;
      EXPECT_EQ(row.turn == Turn::kUntried, !untried_on_gpus(*changed).empty()) << row.name;
    }
  }
}

}  // namespace
}  // namespace fathom::plan::memory_keys_test
