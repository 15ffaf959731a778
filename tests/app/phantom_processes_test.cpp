// Several processes on phantom GPUs, over a stub of NCCL: what each takes, event by event, not what it computes.
#include <utility>

#include "tests/app/several_processes.h"

namespace fathom {
namespace {

class SeveralProcessesOnPhantomGpus : public SeveralProcesses {
 protected:
  // Every rank as it was planned: in bytes by what is played of a run, in events by all of it.
  void expect_planned_events(const std::string& keys, int processes) {
    SCOPED_TRACE(keys);
    std::filesystem::remove_all(folder_ / "played");
    const Outcome played = run("train run.yaml --phantom-gpu H100 --trace trace --planned-trace planned device=cuda " +
                               keys + " output_dir=played num_processes=" + std::to_string(processes));
    ASSERT_EQ(played.status, 0) << played.errors;
    EXPECT_THAT(played.output, ::testing::HasSubstr("Dry run and measured are equal to the byte"));
    expect_planned(played, processes, ": [0-9,]+ events of the allocator, each as planned");
  }
};

TEST_F(SeveralProcessesOnPhantomGpus, TakeWhatWasPlannedForEach) {
  for (const auto& [keys, processes] : {std::pair{"strategy=ddp", 3},
                                        {"strategy=fsdp packing=true gradient_accumulation_steps=2", 3},
                                        {"strategy=fsdp load_in_4bit=true", 3},
                                        {"strategy=fsdp method=full bf16=true gradient_checkpointing=true", 3},
                                        {"strategy=fsdp dp_replicate_size=3 method=full optim=adamw_8bit", 3}}) {
    expect_planned_events(keys, processes);
  }
}

// Of 21 batches 9 are left for the second step of 4 processes with 3 micro-batches: 3 for the first, 2 for each other.
TEST_F(SeveralProcessesOnPhantomGpus, TakeWhatWasPlannedWhereStepsAreNotSharedEvenly) {
  for (const char* keys : {"strategy=fsdp gradient_accumulation_steps=3",
                           "strategy=fsdp dp_replicate_size=2 method=full gradient_accumulation_steps=3"}) {
    expect_planned_events(keys, 4);
  }
}

TEST_F(SeveralProcessesOnPhantomGpus, ArePlannedFromWhereTheyGoOn) {
  const std::string keys = "strategy=fsdp save_steps=3 ";
  expect_planned_events(keys + "max_steps=3", 2);
  std::filesystem::rename(folder_ / "played", folder_ / "before");
  expect_planned_events(keys + "resume_from_checkpoint=before/checkpoint-3", 2);
}

}  // namespace
}  // namespace fathom
