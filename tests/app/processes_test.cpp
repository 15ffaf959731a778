// Several processes train one run: the same numbers as one process, the bytes that were planned for each, and a clear
// end when one of them is gone.
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>
#include <sstream>

#include "base/json_value.h"
#include "tests/app/several_processes.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A step of 41 samples has fewer batches at the end of a pass than there are processes.
TEST_F(SeveralProcesses, GiveTheBitsOfOneWithAsManyMicroBatches) {
  struct Case {
    const char* keys;
    int processes;
    const char* strategy = "";
    int accumulation = 1;
  };
  for (const auto& [keys, processes, strategy, accumulation] :
       {Case{"load_in_4bit=true", 2}, Case{"method=full optim=adamw_8bit", 3}, Case{"packing=true bf16=true", 3},
        Case{"load_in_8bit=true gradient_checkpointing=true group_by_length=true", 4},
        Case{"load_in_4bit=true", 3, " strategy=fsdp"},
        Case{"method=full bf16=true gradient_checkpointing=true", 3, " strategy=fsdp"},
        Case{"method=full dtype=bfloat16 master_weights=fp32 packing=true", 2,
             " strategy=fsdp reshard_after_forward=false"},
        Case{"method=full bf16=true packing=true optim=adamw_8bit save_steps=4", 4,
             " strategy=fsdp reshard_after_forward=false"},
        Case{"bf16=true dtype=float32 modules_to_save=[norm,o_proj,down_proj]", 2, " strategy=fsdp", 2},
        Case{"load_in_8bit=true modules_to_save=[norm,embed_tokens]", 4, " strategy=fsdp"},
        Case{"load_in_4bit=true", 2, " strategy=fsdp", 3},
        Case{"method=full dtype=bfloat16 master_weights=stochastic optim=adamw_8bit", 3, " strategy=fsdp"},
        Case{"method=full optim=adamw_bf16", 2, " strategy=fsdp"},
        Case{"load_in_4bit=true modules_to_save=[norm,embed_tokens] optim=adamw_8bit", 4, " strategy=fsdp"}}) {
    SCOPED_TRACE(std::string(keys) + ", " + std::to_string(processes));
    for (const char* folder : {"alone", "together"}) fs::remove_all(folder_ / folder);
    const std::string run_with = std::string("train run.yaml ") + keys + " gradient_accumulation_steps=";
    const Outcome alone = run(run_with + std::to_string(processes * accumulation) + " output_dir=alone");
    ASSERT_EQ(alone.status, 0) << alone.errors;
    const Outcome together = run(run_with + std::to_string(accumulation) +
                                 " output_dir=together num_processes=" + std::to_string(processes) + strategy);
    ASSERT_EQ(together.status, 0) << together.errors;
    EXPECT_EQ(numbers("together"), numbers("alone"));
    EXPECT_THAT(numbers("alone"), HasSubstr("eval_loss"));
    EXPECT_TRUE(weights("together") == weights("alone"));
    EXPECT_FALSE(weights("alone").empty());
    expect_planned(together, processes);
    const Json peak = read_json(folder_ / "together/memory.json").at("peak");
    const auto measured = peak.at("measured").get<double>();
    EXPECT_NEAR(peak.at("analytic").get<double>(), measured, 0.03 * measured);
  }
}

// Batches of two lines each, for copies and for as many processes that each have the whole model: both add up the same
// samples in the same order, within a copy and then over copies. Lines of a batch fill a bin of 48 tokens.
class SeveralCopies : public SeveralProcesses {
 protected:
  static constexpr int kBatches = 23;
  struct Case {
    const char* keys;
    int copies, shards, accumulation = 1;
  };

  void write_batches(const std::string& name, const std::vector<int>& order) {
    std::string lines;
    for (const int batch : order) {
      for (const int length : {24 + batch, 24 - batch}) {
        std::vector<int> ids;
        ids.reserve(static_cast<size_t>(length));
        for (int i = 0; i < length; ++i) ids.push_back(300 + (batch * 31 + i * i * 7) % 400);
        lines += Json{{"input_ids", ids}}.dump() + "\n";
      }
    }
    write(name, lines);
  }

  // What each copy takes of a step, in its order; then process by process in turn.
  static std::vector<int> dealt(const Case& shape) {
    const int processes = shape.copies * shape.shards;
    std::vector<int> order;
    for (int step = 0; step < kBatches; step += processes * shape.accumulation) {
      const int end = std::min(kBatches, step + processes * shape.accumulation);
      std::vector<std::vector<int>> of_copies(static_cast<size_t>(shape.copies));
      for (int batch = step; batch < end; ++batch) {
        of_copies[static_cast<size_t>((batch - step) % processes / shape.shards)].push_back(batch);
      }
      for (int turn = 0; turn < end - step; ++turn) {
        order.push_back(
            of_copies[static_cast<size_t>(turn % shape.copies)].at(static_cast<size_t>(turn / shape.copies)));
      }
    }
    return order;
  }

  std::string norms(const std::string& run) const {
    std::string all;
    std::istringstream lines(numbers(run));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("loss")) all += line + "\n";  // added up by all processes, not by copies
    }
    return all;
  }
};

// At the end of a pass 3 batches are left for 4 processes; with accumulation 7 for 8.
TEST_F(SeveralCopies, GiveTheBitsOfAsManyProcessesThatHaveAll) {
  std::vector<int> in_order(kBatches);
  std::iota(in_order.begin(), in_order.end(), 0);
  write_batches("ids.jsonl", in_order);
  for (const Case& shape : {Case{"method=full bf16=true gradient_checkpointing=true", 2, 2, 2},
                            Case{"load_in_4bit=true packing=true per_device_train_batch_size=1", 2, 2},
                            Case{"load_in_8bit=true modules_to_save=[norm]", 3, 1}}) {
    SCOPED_TRACE(shape.keys);
    for (const char* folder : {"whole", "shared"}) fs::remove_all(folder_ / folder);
    write_batches("dealt.jsonl", dealt(shape));
    const std::string words = std::string(
                                  "train run.yaml max_length=48 shuffle=false validation_file=ids.jsonl "
                                  "dataset_format=input_ids ") +
                              shape.keys;
    const auto count = [](const char* key, int number) { return std::string(key) + std::to_string(number); };
    const Outcome whole =
        run(words + " output_dir=whole train_file=dealt.jsonl" + count(" num_processes=", shape.copies) +
            count(" gradient_accumulation_steps=", shape.shards * shape.accumulation));
    ASSERT_EQ(whole.status, 0) << whole.errors;
    const int processes = shape.copies * shape.shards;
    const Outcome shared =
        run(words + " output_dir=shared train_file=ids.jsonl strategy=fsdp" + count(" num_processes=", processes) +
            count(" dp_replicate_size=", shape.copies) + count(" gradient_accumulation_steps=", shape.accumulation));
    ASSERT_EQ(shared.status, 0) << shared.errors;
    EXPECT_EQ(norms("shared"), norms("whole"));
    EXPECT_THAT(norms("shared"), AllOf(HasSubstr("grad_norm"), HasSubstr("eval_loss")));
    EXPECT_TRUE(weights("shared") == weights("whole"));
    EXPECT_FALSE(weights("shared").empty());
    expect_planned(shared, processes);
    const Json peak = read_json(folder_ / "shared/memory.json").at("peak");
    const auto measured = peak.at("measured").get<double>();
    EXPECT_NEAR(peak.at("analytic").get<double>(), measured, 0.03 * measured);
  }
}

// Of 6 batches every second step has 2, which all add up alike: what goes on from the third step ends in equal states
// if it began with equal ones. The second copy has no batch there.
TEST_F(SeveralCopies, GoOnAsOneCopyAndAsNone) {
  write_batches("ids.jsonl", {0, 1, 2, 3, 4, 5});
  const std::string words =
      "train run.yaml max_length=48 dataset_format=input_ids train_file=ids.jsonl validation_file=ids.jsonl "
      "max_steps=4 save_steps=1 ";
  const Outcome copies = run(words + "output_dir=copies num_processes=4 strategy=fsdp dp_replicate_size=2");
  ASSERT_EQ(copies.status, 0) << copies.errors;
  for (const auto& [folder, keys] :
       {std::pair{"again", "num_processes=4 strategy=fsdp dp_replicate_size=2 dp_shard_size=2"},
        std::pair{"fsdp", "num_processes=4 strategy=fsdp"},
        std::pair{"ddp", "num_processes=2 gradient_accumulation_steps=2"},
        std::pair{"alone", "gradient_accumulation_steps=4"}}) {
    const Outcome other = run(words + "output_dir=" + folder + " resume_from_checkpoint=copies/checkpoint-3 " + keys);
    ASSERT_EQ(other.status, 0) << other.errors;
    for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
      const fs::path place = fs::path("checkpoint-4") / file;
      EXPECT_TRUE(read_file(folder_ / folder / place) == read_file(folder_ / "copies" / place))
          << folder << " " << file;
    }
  }
}

// Some have no batch in all that is left, and gather and add up with those that have one.
TEST_F(SeveralCopies, PlanARaggedStepThatIsTheLast) {
  const std::string words =
      "train run.yaml max_length=48 dataset_format=input_ids train_file=ids.jsonl validation_file=null "
      "eval_strategy=no "
      "max_steps=2 save_steps=1 strategy=fsdp ";
  for (const auto& [batches, processes, keys] :
       {std::tuple{4, 3, ""}, {5, 4, " dp_replicate_size=2"}, {7, 4, " dp_replicate_size=2 method=full"}}) {
    std::vector<int> order(static_cast<size_t>(batches));
    std::iota(order.begin(), order.end(), 0);
    write_batches("ids.jsonl", order);
    const std::string folder = "run" + std::to_string(batches);
    const std::string all = words + "output_dir=" + folder + " num_processes=" + std::to_string(processes) + keys;
    const Outcome whole = run(all);
    ASSERT_EQ(whole.status, 0) << whole.errors;
    const Outcome rest = run(all + " resume_from_checkpoint=" + folder + "/checkpoint-1");
    ASSERT_EQ(rest.status, 0) << rest.errors;
    expect_planned(rest, processes);
  }
}

// Each draws its own dropout, and a resumed run the same again; what one number of processes saved another goes on
// from, where steps stay as large.
TEST_F(SeveralProcesses, AreResumed) {
  const std::string dropping = "train run.yaml num_processes=2 lora_dropout=0.3 save_steps=4 ";
  ASSERT_EQ(run(dropping + "output_dir=whole").status, 0);
  fs::copy(folder_ / "whole", folder_ / "cut", fs::copy_options::recursive);
  fs::remove_all(folder_ / "cut" / "checkpoint-8");
  fs::remove(folder_ / "cut" / "adapter_model.safetensors");
  const Outcome resumed = run(dropping + "output_dir=cut resume_from_checkpoint=auto");
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_TRUE(weights("cut") == weights("whole"));

  const std::string plain = "train run.yaml save_steps=4 ";
  ASSERT_EQ(run(plain + "output_dir=two num_processes=2").status, 0);
  const Outcome alone =
      run(plain + "output_dir=one resume_from_checkpoint=two/checkpoint-4 gradient_accumulation_steps=2");
  ASSERT_EQ(alone.status, 0) << alone.errors;
  EXPECT_TRUE(weights("one") == weights("two"));
  // So do processes that share the model, and others from theirs.
  const Outcome shared =
      run(plain + "output_dir=shared resume_from_checkpoint=two/checkpoint-4 num_processes=2 strategy=fsdp");
  ASSERT_EQ(shared.status, 0) << shared.errors;
  EXPECT_TRUE(weights("shared") == weights("two"));
  for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(read_file(folder_ / "shared/checkpoint-8" / file) == read_file(folder_ / "two/checkpoint-8" / file));
  }
}

// Steps of 12 batches, whoever takes them: each move goes on from the checkpoint of the one before, and the end is that
// of a run that was never moved.
TEST_F(SeveralProcesses, KeepAStepWhereTheyBecomeMoreOrFewer) {
  const std::string plain = "train run.yaml lr_scheduler_type=constant save_steps=2 eval_strategy=no ";
  ASSERT_EQ(run(plain + "output_dir=whole gradient_accumulation_steps=12 max_steps=10").status, 0);
  const auto move = [&](const std::string& to, int steps, int accumulation) {
    const Outcome moved =
        run(plain + "output_dir=moved resume_from_checkpoint=auto max_steps=" + std::to_string(steps) + " " + to);
    ASSERT_EQ(moved.status, 0) << moved.errors;
    EXPECT_THAT(
        moved.errors,
        HasSubstr("a step stays as large by gradient_accumulation_steps: " + std::to_string(accumulation) + "\n"));
    const std::string checkpoint = "checkpoint-" + std::to_string(steps);
    for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(read_file(folder_ / "moved" / checkpoint / file) == read_file(folder_ / "whole" / checkpoint / file))
          << to << ": " << file;
    }
  };
  ASSERT_EQ(
      run(plain + "output_dir=moved num_processes=4 strategy=fsdp gradient_accumulation_steps=3 max_steps=2").status,
      0);
  move("num_processes=2 strategy=fsdp", 4, 6);
  move("", 6, 12);
  move("num_processes=3 strategy=fsdp", 8, 4);
  // As it went on last.
  move("num_processes=3 strategy=fsdp", 10, 4);

  // With the whole model in each, sums have another order: the state is the same before the first of them.
  const auto begin = [&](const std::string& to) {
    fs::remove_all(folder_ / "begun");
    const Outcome begun = run(plain + "output_dir=begun resume_from_checkpoint=whole/checkpoint-4 max_steps=4 " + to);
    EXPECT_EQ(begun.status, 0) << begun.errors;
    return weights("begun");
  };
  const std::string alone = begin("");
  EXPECT_FALSE(alone.empty());
  EXPECT_TRUE(begin("num_processes=4") == alone);
  EXPECT_TRUE(begin("num_processes=3 strategy=fsdp") == alone);

  const Outcome undivided = run(plain + "output_dir=moved resume_from_checkpoint=auto num_processes=5");
  EXPECT_EQ(undivided.status, 2);
  EXPECT_THAT(undivided.errors,
              AllOf(HasSubstr("num_processes: 3 and gradient_accumulation_steps: 4; with "
                              "num_processes: 5 no gradient_accumulation_steps keeps a step as large"),
                    HasSubstr("set num_processes: 4 or 6")));
  const Outcome contradicted = run(plain +
                                   "output_dir=moved resume_from_checkpoint=auto num_processes=2 "
                                   "gradient_accumulation_steps=3");
  EXPECT_EQ(contradicted.status, 2);
  EXPECT_THAT(contradicted.errors, AllOf(HasSubstr("12 batches a step"), HasSubstr("would take 6"),
                                         HasSubstr("leave gradient_accumulation_steps out")));
}

// Moments in blocks and weights rounded by chance too, wherever processes divide them.
TEST_F(SeveralProcesses, GoOnFromOthersShares) {
  const std::string train =
      "train run.yaml method=full dtype=bfloat16 master_weights=stochastic optim=adamw_8bit "
      "eval_strategy=no save_steps=2 max_steps=6 ";
  const auto go_on = [&](const std::string& keys) {
    const Outcome outcome = run(train + keys);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
  };
  go_on("output_dir=alone gradient_accumulation_steps=6");
  go_on("output_dir=three num_processes=3 strategy=fsdp gradient_accumulation_steps=2");
  go_on(
      "output_dir=two num_processes=2 strategy=fsdp gradient_accumulation_steps=3 "
      "resume_from_checkpoint=three/checkpoint-2");
  go_on("output_dir=one gradient_accumulation_steps=6 resume_from_checkpoint=two/checkpoint-4");
  for (const char* folder : {"three", "two", "one"}) {
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = std::string("checkpoint-6/") + file;
      EXPECT_TRUE(read_file(folder_ / folder / path) == read_file(folder_ / "alone" / path)) << folder << file;
    }
  }
}

TEST_F(SeveralProcesses, EndTogether) {
  const std::string endless = "train run.yaml max_steps=100000 eval_strategy=no ddp_timeout=3 output_dir=out ";
  write("kill.sh", R"(set -u
deed=$1; shift
"$@" >stdout.txt 2>stderr.txt &
p=$!
for i in $(seq 300); do grep -q '"step":2,' out/metrics.jsonl 2>/dev/null && break; sleep 0.1; done
mapfile -t ranks < <(pgrep -P $p)
s=$(date +%s%N)
eval "$deed"
wait $p
echo $? >status.txt
echo $(( ($(date +%s%N) - s) / 1000000 )) >milliseconds.txt
)");
  const auto after = [&](const std::string& deed, const std::string& processes = "num_processes=3") {
    fs::remove_all(folder_ / "out");
    const std::string command =
        "cd '" + folder_.string() + "' && bash kill.sh '" + deed + "' '" FATHOM_PROGRAM "' " + endless + processes;
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_LT(std::stoi(read_file(folder_ / "milliseconds.txt")), 15'000);
    return std::stoi(read_file(folder_ / "status.txt"));
  };
  EXPECT_EQ(after("kill -9 ${ranks[1]}"), 137);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"),
              AllOf(HasSubstr("rank 1 was killed by signal 9"), HasSubstr("rank 1 of 3 does not answer"),
                    Not(HasSubstr("frame #"))));
  EXPECT_EQ(after("kill -9 ${ranks[0]}"), 137);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"),
              AllOf(HasSubstr("rank 0 was killed by signal 9"), HasSubstr("rank 0 of 3"), Not(HasSubstr("frame #"))));
  EXPECT_EQ(after("kill -STOP ${ranks[2]}"), 1);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"), HasSubstr("rank 2 of 3 does not answer"));
  // Of 2 copies: some ranks wait for one that waits for the one that is gone.
  EXPECT_EQ(after("kill -9 ${ranks[3]}", "num_processes=4 strategy=fsdp dp_replicate_size=2 "), 137);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"),
              AllOf(HasSubstr("rank 3 was killed by signal 9"), HasSubstr("rank 3 of 4 does not answer"),
                    Not(HasSubstr("rank 0 of 4")), Not(HasSubstr("rank 1 of 4")), Not(HasSubstr("rank 2 of 4"))));
  EXPECT_EQ(after("kill -TERM $p"), 143);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"), AllOf(HasSubstr("saved out/checkpoint-"), HasSubstr("go on with")));
}

TEST_F(SeveralProcesses, OfALauncher) {
  write("launch.sh", R"(for r in 0 1; do
  WORLD_SIZE=2 RANK=$r LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT "$@" \
    >stdout$r.txt 2>stderr$r.txt & pids[$r]=$!
done
wait ${pids[0]}; echo $? >status.txt; wait ${pids[1]}; echo $? >>status.txt
)");
  const std::string port = free_port();
  const std::string command = "cd '" + folder_.string() + "' && PORT=" + port +
                              " bash launch.sh '" FATHOM_PROGRAM "' " + "train run.yaml output_dir=out";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "status.txt"), "0\n0\n") << read_file(folder_ / "stderr0.txt");
  EXPECT_THAT(read_file(folder_ / "stdout0.txt"), HasSubstr("rank 1: peak of live bytes"));
  EXPECT_EQ(read_file(folder_ / "stdout1.txt") + read_file(folder_ / "stderr1.txt"), "");
  const Outcome contradicted = run("train run.yaml output_dir=out num_processes=3", "WORLD_SIZE=2 RANK=0 ");
  EXPECT_EQ(contradicted.status, 2);
  EXPECT_THAT(contradicted.errors, HasSubstr("num_processes is 3, and torchrun has started 2"));
  const Outcome excluded = run("train run.yaml output_dir=out objective=dpo", "WORLD_SIZE=2 RANK=0 ");
  EXPECT_EQ(excluded.status, 2);
  EXPECT_THAT(excluded.errors, HasSubstr("1 with objective: dpo or simpo"));
}

// The first writes in the background for longer than any of them waits for another in a step.
TEST_F(SeveralProcesses, WaitForASlowSave) {
  const Outcome outcome =
      run("train run.yaml num_processes=2 ddp_timeout=4 save_steps=2 eval_strategy=no output_dir=out",
          "LD_PRELOAD='" FATHOM_KILL_AT_LIBRARY "' FATHOM_KILL_AT=slow:200:" + folder_.string() +
              "/out/.checkpoint-2.partial ");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_GT(outcome.seconds, 8);
}

// All find the same in the second step, while the first is still writing the checkpoint of the step before.
TEST_F(SeveralProcesses, TellWhatFailedThoughASaveGoesOn) {
  const Outcome outcome =
      run("train run.yaml num_processes=2 ddp_timeout=4 save_steps=1 eval_strategy=no method=full learning_rate=1e18 "
          "warmup_steps=0 max_grad_norm=0 output_dir=out",
          "LD_PRELOAD='" FATHOM_KILL_AT_LIBRARY "' FATHOM_KILL_AT=slow:200:" + folder_.string() +
              "/out/.checkpoint-1.partial ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("error: rank 1: step 2: the loss is not finite"),
                                    HasSubstr("error: step 2: the loss is not finite"),
                                    HasSubstr("a checkpoint is still being written"), Not(HasSubstr("not answer"))));
}

// Files may take half an hour, but not of a process that is stopped.
TEST_F(SeveralProcesses, MissOneThatIsStoppedWhileFilesAreWritten) {
  write("stop.sh",
        R"(LD_PRELOAD=$KILL_AT FATHOM_KILL_AT=slow:150:$PWD/out/.checkpoint-2.partial "$@" >stdout.txt 2>stderr.txt &
p=$!
for i in $(seq 300); do [ -e out/.checkpoint-2.partial ] && break; sleep 0.1; done
mapfile -t ranks < <(pgrep -P $p)
kill -STOP ${ranks[2]}
wait $p
echo $? >status.txt
)");
  const std::string command = "cd '" + folder_.string() +
                              "' && KILL_AT='" FATHOM_KILL_AT_LIBRARY "' timeout 100 bash stop.sh '" FATHOM_PROGRAM
                              "' train run.yaml num_processes=3 "
                              "strategy=fsdp ddp_timeout=4 save_steps=2 eval_strategy=no output_dir=out";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "status.txt"), "1\n");
  EXPECT_THAT(read_file(folder_ / "stderr.txt"),
              AllOf(HasSubstr("rank 2 of 3 does not answer"), HasSubstr("it has given no sign for 4 s"),
                    Not(HasSubstr("rank 0 of 3")), Not(HasSubstr("rank 1 of 3"))));
}

// The disk of one is full while each writes its share: all give that checkpoint up, and go on together.
TEST_F(SeveralProcesses, GoOnTogetherWhereOneCannotWrite) {
  write("launch.sh", R"(for r in 0 1 2; do
  [ $r != 1 ] || export FATHOM_KILL_AT=full:50000:$PWD/out LD_PRELOAD=$KILL_AT
  WORLD_SIZE=3 RANK=$r LOCAL_RANK=$r LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT "$@" \
    >stdout$r.txt 2>>stderr.txt & pids[$r]=$!
  unset FATHOM_KILL_AT LD_PRELOAD
done
for r in 0 1 2; do wait ${pids[$r]}; echo $?; done >status.txt
)");
  const std::string command = "cd '" + folder_.string() + "' && PORT=" + free_port() +
                              " KILL_AT='" FATHOM_KILL_AT_LIBRARY "' timeout 60 bash launch.sh '" FATHOM_PROGRAM
                              "' train run.yaml strategy=fsdp method=full eval_strategy=no save_steps=2 output_dir=out";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(folder_ / "stderr.txt");
  EXPECT_EQ(read_file(folder_ / "status.txt"), "1\n1\n1\n");
  const std::string errors = read_file(folder_ / "stderr.txt"), reason = ": rank 1: .*No space left on device";
  for (const char* step : {"2", "4", "6", "8"}) {
    EXPECT_THAT(errors, ContainsRegex("error: the checkpoint of step " + std::string(step) + " could not be saved" +
                                      reason + ".*; the run goes on"));
  }
  EXPECT_THAT(errors,
              ContainsRegex("error: the final model could not be written" + reason + ".*it is tried once more"));
  EXPECT_THAT(errors, Not(HasSubstr("not answer")));
  EXPECT_THAT(errors, Not(HasSubstr("rank 1 failed")));
  EXPECT_FALSE(fs::exists(folder_ / "out" / ".model.partial")) << "nothing half-written";
}

// Of two machines: fathom starts once on each.
TEST_F(SeveralProcesses, OfKubeflowsTrainer) {
  write("launch.sh", R"(for node in 0 1; do
  PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=$node PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=$PORT \
    GLOO_SOCKET_IFNAME=lo "$@" >stdout$node.txt 2>stderr$node.txt & pids[$node]=$!
done
wait ${pids[0]}; echo $? >status.txt; wait ${pids[1]}; echo $? >>status.txt
)");
  ASSERT_EQ(run("train run.yaml output_dir=alone gradient_accumulation_steps=4").status, 0);
  const std::string command = "cd '" + folder_.string() + "' && PORT=" + free_port() +
                              " bash launch.sh '" FATHOM_PROGRAM "' train run.yaml output_dir=out";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "status.txt"), "0\n0\n")
      << read_file(folder_ / "stderr0.txt") << read_file(folder_ / "stderr1.txt");
  EXPECT_THAT(read_file(folder_ / "stdout0.txt"), HasSubstr("rank 3: peak of live bytes"));
  EXPECT_EQ(read_file(folder_ / "stdout1.txt") + read_file(folder_ / "stderr1.txt"), "");
  EXPECT_TRUE(weights("out") == weights("alone"));
  const Outcome contradicted =
      run("train run.yaml output_dir=out num_processes=3", "PET_NNODES=1 PET_NPROC_PER_NODE=2 ");
  EXPECT_EQ(contradicted.status, 2);
  EXPECT_THAT(contradicted.errors, HasSubstr("num_processes is 3, and PET_NNODES times PET_NPROC_PER_NODE is 2"));
}

// Its step is killed, and started again with the same variables but the count of restarts.
TEST_F(SeveralProcesses, OfARequeuedJobGoOn) {
  write("launch.sh", R"(restarts=$1 deed=$2; shift 2
for r in 0 1; do
  SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$r SLURM_JOB_ID=$JOB SLURM_STEP_NODELIST=127.0.0.1 \
    SLURM_RESTART_COUNT=$restarts "$@" >stdout$r.txt 2>stderr$r.txt & pids[$r]=$!
done
eval "$deed"
wait ${pids[0]}; echo $? >status.txt; wait ${pids[1]}; echo $? >>status.txt
)");
  const std::string keys = "train run.yaml save_steps=2 eval_strategy=no max_steps=60 ";
  ASSERT_EQ(run(keys + "num_processes=2 output_dir=whole").status, 0);
  const auto launch = [&](const std::string& restarts, const std::string& deed) {
    const std::string command = "cd '" + folder_.string() + "' && JOB=" + std::to_string(getpid()) +
                                " bash launch.sh '" + restarts + "' '" + deed + "' '" FATHOM_PROGRAM "' " + keys +
                                "output_dir=out";
    EXPECT_EQ(std::system(command.c_str()), 0);
  };
  launch("", "until [ -e out/checkpoint-4/manifest.json ]; do sleep 0.05; done; kill -9 ${pids[@]}");
  EXPECT_EQ(read_file(folder_ / "status.txt"), "137\n137\n");
  launch("1", "");
  EXPECT_EQ(read_file(folder_ / "status.txt"), "0\n0\n") << read_file(folder_ / "stderr0.txt");
  EXPECT_THAT(read_file(folder_ / "stderr0.txt"), HasSubstr("resuming from out/checkpoint-"));
  EXPECT_TRUE(weights("out") == weights("whole"));
}

TEST_F(SeveralProcesses, AreRefusedWhereTheyHaveNothingToDo) {
  const Outcome idle = run("train run.yaml output_dir=out num_processes=22");
  EXPECT_EQ(idle.status, 2);
  EXPECT_THAT(idle.errors, HasSubstr("22 processes for 21 batches"));
  const Outcome shared = run("train run.yaml output_dir=out strategy=fsdp");
  EXPECT_EQ(shared.status, 2);
  EXPECT_THAT(shared.errors, HasSubstr("one process has no others to share the model with"));
  const Outcome uneven = run("train run.yaml output_dir=out num_processes=4 strategy=fsdp dp_replicate_size=3");
  EXPECT_EQ(uneven.status, 2);
  EXPECT_THAT(uneven.errors, HasSubstr("dp_replicate_size: expected copies that share num_processes, 4, evenly"));
  const Outcome launched =
      run("train run.yaml output_dir=out strategy=fsdp dp_replicate_size=2 dp_shard_size=2", "WORLD_SIZE=2 RANK=0 ");
  EXPECT_EQ(launched.status, 2);
  EXPECT_THAT(launched.errors, HasSubstr("num_processes, 2, got 2 times 2"));
  const Outcome by_rows = run("train run.yaml output_dir=out num_processes=2 strategy=fsdp optim=adafactor");
  EXPECT_EQ(by_rows.status, 2);
  EXPECT_THAT(by_rows.errors,
              HasSubstr("not adafactor, whose means are of whole rows and columns, with strategy: fsdp"));
}

}  // namespace
}  // namespace fathom
