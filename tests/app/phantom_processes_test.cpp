// Several processes on phantom GPUs, over a stub of NCCL: what each takes, event by event, not what it computes.
#include "tests/app/several_processes.h"

namespace fathom {
namespace {

class SeveralProcessesOnPhantomGpus : public SeveralProcesses {};

TEST_F(SeveralProcessesOnPhantomGpus, TakeWhatWasPlannedForEach) {
  for (const char* with : {"strategy=ddp", "strategy=fsdp packing=true gradient_accumulation_steps=2",
                           "strategy=fsdp load_in_4bit=true", "strategy=fsdp gradient_accumulation_steps=3",
                           "strategy=fsdp method=full bf16=true gradient_checkpointing=true",
                           "strategy=fsdp dp_replicate_size=3 method=full optim=adamw_8bit"}) {
    SCOPED_TRACE(with);
    std::filesystem::remove_all(folder_ / "played");
    const std::string keys = "--trace trace device=cuda num_processes=3 output_dir=played ";
    const Outcome played = run("train run.yaml --phantom-gpu H100 " + keys + with);
    ASSERT_EQ(played.status, 0) << played.errors;
    EXPECT_THAT(played.output, ::testing::HasSubstr("Dry run and measured are equal to the byte"));
    expect_planned(played, 3, ": [0-9,]+ events of the allocator, each as planned");
  }
}

}  // namespace
}  // namespace fathom
