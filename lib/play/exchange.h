// What is said between a plan for a GPU and the child process that plays it on a phantom GPU, and its form as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "config/devices.h"
#include "config/run_config.h"
#include "memory/component.h"
#include "memory/timeline.h"
#include "plan/plan.h"
#include "plan/time/kernels.h"

namespace fathom::plan {

// One run to play. Every question stands for itself: an answer does not depend on the questions before it.
struct PhantomQuestion {
  config::GpuSpec gpu;       // what the child's process pretends to be; its memory_bytes do not count here
  int64_t memory_bytes = 0;  // of the GPU that is pretended; phantom_gpu::kUnlimitedBytes: what would the run need?
  int64_t taken_bytes = 0;   // of them, by others: the run may have the rest
  uint64_t placement = 0;    // where segments lie in the address space: other numbers, other addresses
  Detail detail = Detail::kBytes;
  bool kernels = false;        // instead: what the step that computes most gives the device
  std::string trace;           // a file for the allocator's events of all that is played; empty: none
  std::string operator_times;  // the GPU's table as JSON, by which arithmetic is timed; empty: it is not
  config::RunConfig config;
  int64_t added_tokens = 0;     // as arch::Architecture has them: the child does not open the tokenizer
  schedule::Schedule schedule;  // what is played
};

struct PhantomAnswer {
  std::string out_of_memory;  // LibTorch's message where the memory did not suffice; the figures are those until then
  memory::Memory memory;      // this and the following: only of a run that came to its end
  memory::Timeline timeline;
  std::optional<KernelList> kernels;
  StepArithmetic arithmetic;
  int64_t steps_played = 0;
  bool exact = false;  // as DryRun says it
  double seconds = 0;
  std::string attention_kernel;
  int64_t requested = 0, allocated = 0, reserved = 0;  // peaks of the caching allocator, bytes; of such a run too
};

// gpu is not part of it: the child is told when it starts.
Json to_json(const PhantomQuestion& question);
PhantomQuestion question_from_json(const Json& value);  // throws Error for a value of another form
Json to_json(const PhantomAnswer& answer);
// Throws Error for a value of another form, and for {"error": message}, which says why a question has no answer.
PhantomAnswer answer_from_json(const Json& value);

}  // namespace fathom::plan
