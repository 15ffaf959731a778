// How much of a model one of several processes has at a time, where each keeps a share: told by the ledger's blocks of
// a step, and by the peak while it is loaded.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/json_value.h"
#include "memory/timeline.h"
#include "tests/app/several_processes.h"

namespace fathom {
namespace {

using memory::Phase;
using memory::Timeline;

// Eight layers: unit 0 is the embeddings, unit 9 the last norm with the head.
class GatheredUnits : public SeveralProcesses {
 protected:
  static constexpr int64_t kLastUnit = 9;

  void SetUp() override {
    SeveralProcesses::SetUp();
    std::string lines;
    for (int line = 0; line < 41; ++line) {
      Json ids = Json::array();
      for (int i = 0; i < 5 + line % 9; ++i) ids.push_back(3 + (line * 31 + i * 7) % 200);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write("ids.jsonl", lines);
    make_model(false);
  }

  void make_model(bool tied) {
    write("model/config.json", Json{{"architectures", {"LlamaForCausalLM"}},
                                    {"model_type", "llama"},
                                    {"vocab_size", 256},
                                    {"hidden_size", 64},
                                    {"intermediate_size", 128},
                                    {"num_hidden_layers", kLastUnit - 1},
                                    {"num_attention_heads", 4},
                                    {"num_key_value_heads", 2},
                                    {"max_position_embeddings", 64},
                                    {"rms_norm_eps", 1e-5},
                                    {"hidden_act", "silu"},
                                    {"tie_word_embeddings", tied},
                                    {"bos_token_id", 1},
                                    {"eos_token_id", 2}}
                                   .dump());
  }

  void train(const std::string& keys, const std::string& model = "model random_init=true") {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome =
        run("train run.yaml train_file=ids.jsonl validation_file=ids.jsonl dataset_format=input_ids output_dir=out "
            "model_name_or_path=" +
            model + " " + keys);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
  }

  // The largest bytes of each unit's gathered blocks at one moment, and how many units are there at once.
  struct Gathered {
    std::map<int64_t, int64_t> bytes;            // by units
    std::map<Phase, std::set<int64_t>> taken;    // units, by the phase in which their memory was taken
    std::map<Phase, std::set<int64_t>> at_once;  // units, where most were there
  };
  Gathered gathered() const {
    const Timeline timeline = memory::timeline_from_json(read_json(folder_ / "out/timeline.json").at("measured"));
    std::vector<std::pair<int64_t, const Timeline::Block*>> blocks;  // of units
    for (const Timeline::Block& block : timeline.blocks) {
      const std::string& name = timeline.names[block.name];
      if (name.starts_with("unit ") && name.ends_with(", gathered"))
        blocks.emplace_back(std::stoll(name.substr(5)), &block);
    }
    Gathered found;
    for (const Timeline::Span& span : timeline.phases) {
      for (int64_t position = span.begin; position <= span.end; ++position) {
        std::map<int64_t, int64_t> there;
        for (const auto& [unit, block] : blocks) {
          if (block->taken == position) found.taken[span.phase].insert(unit);
          if (block->taken <= position && position < block->given_back) there[unit] += block->bytes;
        }
        std::set<int64_t> units;
        for (const auto& [unit, bytes] : there) {
          units.insert(unit);
          found.bytes[unit] = std::max(found.bytes[unit], bytes);
        }
        if (units.size() > found.at_once[span.phase].size()) found.at_once[span.phase] = units;
      }
    }
    return found;
  }
};

std::set<int64_t> units(int64_t first, int64_t last) {
  std::set<int64_t> all;
  for (int64_t unit = first; unit <= last; ++unit) all.insert(unit);
  return all;
}

TEST_F(GatheredUnits, AreTwoAtATimeForwardsAndBackwards) {
  for (const char* keys : {"num_processes=2 method=full", "num_processes=3 method=full bf16=true packing=true",
                           "num_processes=2 method=full gradient_checkpointing=true gradient_accumulation_steps=2",
                           "num_processes=4 load_in_4bit=true gradient_checkpointing=true",
                           "num_processes=4 method=full dp_replicate_size=2"}) {
    SCOPED_TRACE(keys);
    train(std::string("strategy=fsdp ") + keys);
    const Gathered found = gathered();
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      EXPECT_EQ(found.at_once.at(phase).size(), 2) << memory::phase_name(phase);
    }
    // Each forwards, and each layer again backwards but the last, which with the head stays.
    EXPECT_EQ(found.taken.at(Phase::kForward), units(0, kLastUnit));
    EXPECT_EQ(found.taken.at(Phase::kBackward), units(1, kLastUnit - 2));
  }
}

TEST_F(GatheredUnits, AreMoreWhereTheyStay) {
  make_model(true);
  train("strategy=fsdp num_processes=2 method=full");
  Gathered found = gathered();
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    EXPECT_EQ(found.at_once.at(phase).size(), 3) << memory::phase_name(phase);
    EXPECT_TRUE(found.at_once.at(phase).contains(0)) << "the embeddings, which the head reads";
  }
  make_model(false);
  train("strategy=fsdp num_processes=2 method=full reshard_after_forward=false");
  found = gathered();
  EXPECT_EQ(found.at_once.at(Phase::kForward), units(1, kLastUnit));
  EXPECT_TRUE(found.taken[Phase::kBackward].empty());
}

// At the peak a rank has what it keeps, and the unit whose weights are read, or drawn, besides; quantized to INT8 one
// matrix more.
TEST_F(GatheredUnits, AreLoadedOneByOne) {
  constexpr int64_t kProcesses = 4, kMatrix = 128 * 64 * sizeof(float);
  train("method=full max_steps=1");
  std::filesystem::rename(folder_ / "out", folder_ / "loaded");
  for (const char* model : {"model random_init=true", "loaded"}) {
    for (const auto& [keys, matrices] :
         {std::pair{"method=full", 0}, {"dtype=bfloat16", 0}, {"load_in_4bit=true", 0}, {"load_in_8bit=true", 1}}) {
      SCOPED_TRACE(std::string(model) + ", " + keys);
      train("strategy=fsdp num_processes=4 " + std::string(keys), model);
      const Json record = read_json(folder_ / "out/memory.json"), load = record.at("phases").at("load");
      int64_t kept = 0, largest = 0;
      for (const auto& bytes : load.at("end")) kept += bytes.at("measured").get<int64_t>();
      for (const auto& [unit, bytes] : gathered().bytes) largest = std::max(largest, bytes);
      const int64_t besides = load.at("peak").at("measured").get<int64_t>() - kept;
      EXPECT_GT(besides, 0);
      EXPECT_LE(besides, largest + matrices * kMatrix);
      const auto weights = load.at("end").at("weights").at("measured").get<double>();
      const auto parameters = record.at("workload").at("parameters").get<int64_t>();
      EXPECT_LT(weights, 1.02 * static_cast<double>(parameters * int64_t{sizeof(float)} / kProcesses));
    }
  }
}

}  // namespace
}  // namespace fathom
