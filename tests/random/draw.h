// Random runs: every key that docs/config.md names, ragged data of real lengths, awkward shapes of all families. No
// torch header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "config/keys.h"

namespace fathom::random {

// One line of a data file.
struct Sample {
  int64_t length = 0;   // tokens; of a text about so many bytes; of a pair its source's
  int64_t counted = 0;  // of these, at the end: what counts for the loss, where the format can say so; a pair's target
  bool operator==(const Sample&) const = default;
};

// Everything that decides a run: what is written into its folder, and what is asked of the program there.
struct RandomRun {
  std::map<std::string, std::string> keys;  // of the config, as YAML has them; paths below the run's folder
  Json model;                               // config.json
  std::string weights;                      // type of the stored weights; empty: there are none, only config.json
  int shards = 1;                           // files that they lie in
  std::string quantized;                    // a format: the weights are quantized into another folder before the run
  bool whole = false;                       // the model is the text part of one that sees pictures (in_whole)
  bool tokenizer = false;                   // of single bytes, with a chat template
  int64_t added_tokens = 0;                 // of the tokenizer, beyond its own 259
  std::vector<Sample> train, validation;
  int64_t resume_at = 0;  // the step whose checkpoint a second run continues; 0: there is no second run
  std::string gpu;        // a name in configs/gpus.yaml; empty: the run is on the CPU
  bool planned = false;   // alone, by representatives and step by step: to train it would take long
  bool operator==(const RandomRun&) const = default;

  const std::string& value(const std::string& key) const;  // as given; the key's default where it is not given
  bool is(const std::string& key, std::string_view word) const { return value(key) == word; }
  bool of_several() const { return keys.contains("num_processes") && keys.at("num_processes") != "1"; }
  bool encodes() const { return model.contains("d_model"); }  // an encoder and decoder, whose lines are pairs
};

Json to_json(const RandomRun& run);
RandomRun run_from_json(const Json& value);

// The GPUs of configs/gpus.yaml that LibTorch has kernels for.
std::vector<std::string> phantom_gpus();

// How far draws go towards the ends of what keys take.
enum class Reach {
  kNear,  // as far as forty are played within a test
  kFar,   // up to steps of 5,000 micro-batches and as many as there is patience for, and several processes
};

// The same run for the same numbers. gpus: the names to choose from; empty: a run on the CPU. Throws Error if
// lib/config has a key that the generator does not know, or the other way round.
RandomRun draw(uint64_t seed, uint64_t number, const std::vector<std::string>& gpus, Reach reach = Reach::kFar);

// The words of which a key takes one, of a flag true and false; none for numbers, texts and lists.
std::vector<std::string> words_of(const config::Key& key);

}  // namespace fathom::random
