// Generator state: Mersenne Twister words on the CPU, seed and offset of the counter-based generator elsewhere.
#include "train/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

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
  throw Error("the saved random state is none that a generator has: next is " + std::to_string(engine.next_) +
                  ", left is " + std::to_string(engine.left_),
              "the checkpoint was changed after it was saved; resume from another");
}

}  // namespace

Json random_state(at::Device device) {
  at::Generator generator = default_generator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  if (!device.is_cpu()) {
    return {{"kind", "counter"}, {"seed", generator.current_seed()}, {"offset", generator.get_offset()}};
  }
  const at::mt19937_data_pod engine = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return {{"kind", "mt19937"},    {"seed", engine.seed_},
          {"left", engine.left_}, {"seeded", engine.seeded_},
          {"next", engine.next_}, {"words", std::vector<uint32_t>(engine.state_.begin(), engine.state_.end())}};
}

void restore_random_state(at::Device device, const Json& state) {
  const std::string kind = device.is_cpu() ? "mt19937" : "counter";
  if (!state.is_object() || state.value("kind", "") != kind) {
    throw Error("the saved random state is not of kind " + kind, "resume on the kind of device that saved it");
  }
  at::Generator generator = default_generator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  if (!device.is_cpu()) {
    generator.set_current_seed(state.at("seed").get<uint64_t>());
    generator.set_offset(state.at("offset").get<uint64_t>());
    return;
  }
  at::mt19937_data_pod engine;
  engine.seed_ = state.at("seed").get<uint64_t>();
  engine.left_ = state.at("left").get<int>();
  engine.seeded_ = state.at("seeded").get<bool>();
  engine.next_ = state.at("next").get<uint32_t>();
  const auto words = state.at("words").get<std::vector<uint32_t>>();
  if (words.size() != engine.state_.size())
    throw Error("the saved random state has " + std::to_string(words.size()) + " words");
  std::copy(words.begin(), words.end(), engine.state_.begin());
  require_sound(engine);
  at::mt19937 restored;
  restored.set_data(engine);
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(restored);
  cpu->set_next_float_normal_sample(std::nullopt);
  cpu->set_next_double_normal_sample(std::nullopt);
}

}  // namespace fathom::train
