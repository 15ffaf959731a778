// Launches are told by the stubs alone, in sum: what came between two looks is of the phase before the second.
#include "play/step_sums.h"

#include "phantom_gpu/gpu.h"

namespace fathom::play {

memory::Phase StepSums::phase() const {
  return phases_ == nullptr ? memory::Phase::kOptimizerStep : phases_->phase().value_or(memory::Phase::kOptimizerStep);
}

void StepSums::begin(const ledger::Ledger* phases) {
  settle_launches();
  phases_ = phases;
  current_ = phase();
  for (const memory::Phase each : plan::StepArithmetic::kPhases) {
    Part& part = parts_.of(each);
    for (std::atomic<int64_t>* sum : {&part.matrix_flops, &part.attention_flops, &part.bytes_moved, &part.matrix_ns,
                                      &part.attention_ns, &part.memory_ns, &part.launches, &part.recorded}) {
      *sum = 0;
    }
  }
}

void StepSums::settle_launches() {
  Part& part = parts_.of(current_);
  const int64_t launches = phantom_gpu::launches_of_all(), recorded = phantom_gpu::recorded_of_all();
  part.launches += launches - launches_seen_.exchange(launches);
  part.recorded += recorded - recorded_seen_.exchange(recorded);
}

StepSums::Part& StepSums::here() {
  const memory::Phase now = phase();
  if (now != current_) {
    settle_launches();
    current_ = now;
  }
  return parts_.of(now);
}

void StepSums::add(const plan::Arithmetic& work) {
  Part& part = here();
  part.matrix_flops += work.matrix_flops;
  part.attention_flops += work.attention_flops;
  part.bytes_moved += work.bytes_moved;
}

plan::StepArithmetic StepSums::told(bool timed) {
  settle_launches();
  plan::StepArithmetic told;
  for (const memory::Phase each : plan::StepArithmetic::kPhases) {
    const Part& part = parts_.of(each);
    told.of(each) = {part.matrix_flops, part.attention_flops, part.bytes_moved};
    if (!timed) continue;
    told.of(each).device = {part.matrix_ns, part.attention_ns, part.memory_ns, part.launches, part.recorded};
  }
  return told;
}

}  // namespace fathom::play
