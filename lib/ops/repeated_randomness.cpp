// On a CPU a copy of the engine; on a GPU a seed and an offset.
#include "ops/repeated_randomness.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace fathom::ops {

RandomPosition RandomPosition::now(at::Device device) {
  RandomPosition position;
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  if (device.is_cpu()) {
    position.cpu_ = at::check_generator<at::CPUGeneratorImpl>(generator)->clone();
  } else {
    position.seed_ = generator.current_seed();
    position.offset_ = generator.get_offset();
  }
  return position;
}

void RandomPosition::restore(at::Device device) const {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  if (cpu_ == nullptr) {
    generator.set_current_seed(seed_);
    generator.set_offset(offset_);
    return;
  }
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  cpu->set_engine(cpu_->engine());
  cpu->set_next_float_normal_sample(cpu_->next_float_normal_sample());
  cpu->set_next_double_normal_sample(cpu_->next_double_normal_sample());
}

RepeatedRandomness::RepeatedRandomness(at::Device device, const std::optional<RandomPosition>& position)
    : device_(device) {
  if (!position) return;
  resume_ = RandomPosition::now(device);
  position->restore(device);
}

RepeatedRandomness::~RepeatedRandomness() {
  if (resume_) resume_->restore(device_);
}

}  // namespace fathom::ops
