// Generator state: Mersenne Twister words on the CPU, seed and offset of the counter-based generator elsewhere.
#include "train/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::train {
namespace {

const at::Generator& default_generator(at::Device device) { return at::globalContext().defaultGenerator(device); }

// The generator reads word `next` without asking, and makes new words when `left` has come down to 0. Each number moves
// both by one, so that their sum stays. LibTorch's own is_valid would let it read behind the last word.
void require_sound(const at::mt19937_data_pod& engine) {
  const bool fresh = engine.left_ == 1 && engine.next_ == 0;
  const bool under_way = engine.left_ >= 1 && engine.left_ <= at::MERSENNE_STATE_N &&
                         engine.next_ == static_cast<uint32_t>(at::MERSENNE_STATE_N + 1 - engine.left_);
  if (engine.seeded_ && (fresh || under_way)) return;
  throw Error("next is " + std::to_string(engine.next_) + ", left is " + std::to_string(engine.left_));
}

constexpr char kWords[] = "mt19937", kCounter[] = "counter";

struct Counter {
  uint64_t seed, offset;
};

Counter counter_of(const Json& state) {
  return {unsigned_at(state, "seed", UINT64_MAX), unsigned_at(state, "offset", UINT64_MAX)};
}

at::mt19937_data_pod engine_of(const Json& state) {
  at::mt19937_data_pod engine;
  engine.seed_ = unsigned_at(state, "seed", UINT64_MAX);
  engine.left_ = static_cast<int>(unsigned_at(state, "left", at::MERSENNE_STATE_N));
  engine.next_ = static_cast<uint32_t>(unsigned_at(state, "next", at::MERSENNE_STATE_N));
  engine.seeded_ = state.contains("seeded") && state.at("seeded") == true;
  const Json words = state.value("words", Json());
  const bool whole = words.is_array() && words.size() == engine.state_.size() &&
                     std::all_of(words.begin(), words.end(), [](const Json& word) {
                       return word.is_number_unsigned() && word.get<uint64_t>() <= UINT32_MAX;
                     });
  if (!whole) {
    throw Error("words: expected " + std::to_string(engine.state_.size()) + " of 32 bits");
  }
  std::transform(words.begin(), words.end(), engine.state_.begin(),
                 [](const Json& word) { return word.get<uint32_t>(); });
  require_sound(engine);
  return engine;
}

}  // namespace

Json random_state(at::Device device) {
  at::Generator generator = default_generator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  if (!device.is_cpu()) {
    return {{"kind", kCounter}, {"seed", generator.current_seed()}, {"offset", generator.get_offset()}};
  }
  const at::mt19937_data_pod engine = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return {{"kind", kWords},       {"seed", engine.seed_},
          {"left", engine.left_}, {"seeded", engine.seeded_},
          {"next", engine.next_}, {"words", std::vector<uint32_t>(engine.state_.begin(), engine.state_.end())}};
}

void require_random_state(const Json& state) try {
  const Json kind = state.is_object() ? state.value("kind", Json()) : Json();
  if (kind == kWords) {
    engine_of(state);
  } else if (kind == kCounter) {
    counter_of(state);
  } else {
    throw Error("kind: expected mt19937 or counter, got " + kind.dump().substr(0, 80));
  }
} catch (const Error& error) {
  throw Error(std::string("the saved random state is none that a generator has: ") + error.what());
}

void restore_random_state(at::Device device, const Json& state) {
  require_random_state(state);
  if (state.at("kind") != (device.is_cpu() ? kWords : kCounter)) {
    throw Error("the saved random state is of kind " + state.at("kind").get<std::string>(),
                "resume on the kind of device that saved it");
  }
  at::Generator generator = default_generator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  if (!device.is_cpu()) {
    const Counter counter = counter_of(state);
    generator.set_current_seed(counter.seed);
    generator.set_offset(counter.offset);
    return;
  }
  at::mt19937 restored;
  restored.set_data(engine_of(state));
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(restored);
  cpu->set_next_float_normal_sample(std::nullopt);
  cpu->set_next_double_normal_sample(std::nullopt);
}

}  // namespace fathom::train
