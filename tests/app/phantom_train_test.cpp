// `train --phantom-gpu`: the CUDA path to its end for every method and precision, with its bytes as planned.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kShapes[2][400] = {
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 101, "hidden_size": 24,
        "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 307, "hidden_size": 40,
        "intermediate_size": 91, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 1,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "tie_word_embeddings": true})"};

struct MatrixCase {
  std::string name, settings;
  int shape = 0;
};
void PrintTo(const MatrixCase& each, std::ostream* out) { *out << each.name; }

std::vector<MatrixCase> cases() {
  std::vector<MatrixCase> result;
  for (const std::string method : {"full", "lora"}) {
    for (const std::string precision : {"fp32", "autocast", "bf16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const int shape : {0, 1}) {
          std::string settings = " method=" + method + (checkpointing ? " gradient_checkpointing=true" : "");
          settings += precision == "bf16" ? " dtype=bfloat16" : " dtype=float32";
          if (precision == "autocast") settings += " bf16=true";
          if (method == "lora") settings += shape == 0 ? " lora_dropout=0.1" : " target_modules=all-linear";
          result.push_back(
              {method + "_" + precision + (checkpointing ? "_checkpointing" : "") + "_shape" + std::to_string(shape),
               settings, shape});
        }
      }
    }
  }
  for (const int shape : {0, 1}) {
    const std::string name = "_shape" + std::to_string(shape);
    result.push_back({"full_fp16" + name, " fp16=true max_grad_norm=" + std::to_string(shape), shape});
    result.push_back(
        {"lora_fp16_base" + name, " method=lora fp16=true dtype=float16 gradient_checkpointing=true", shape});
    result.push_back(
        {"full_tf32" + name, " tf32=true attn_implementation=" + std::string(shape == 0 ? "math" : "flash"), shape});
  }
  for (const std::string base : {"load_in_8bit", "load_in_fp8", "load_in_4bit", "bnb_4bit_use_double_quant"}) {
    for (const int shape : {0, 1}) {
      const std::string double_quant = base.starts_with("bnb") ? " load_in_4bit=true" : "";
      result.push_back({base + "_shape" + std::to_string(shape),
                        " method=lora " + base + "=true" + double_quant +
                            (shape == 0 ? base == "load_in_fp8" ? " fp16=true" : " bf16=true"
                                        : " dtype=bfloat16 gradient_checkpointing=true"),
                        shape});
    }
  }
  return result;
}

class PhantomTrain : public ProgramTest {
 protected:
  void write_run(int shape) {
    write("model/config.json", kShapes[shape]);
    write_ids("data.jsonl", 14);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 3
gradient_accumulation_steps: 2
num_train_epochs: 2
eval_strategy: epoch
save_strategy: epoch
logging_steps: 1
output_dir: out
)");
  }
  Json memory() const { return read_json(folder_ / "out" / "memory.json"); }
};

class PhantomTrainMatrix : public PhantomTrain, public ::testing::WithParamInterface<MatrixCase> {};

TEST_P(PhantomTrainMatrix, RunsToItsEndAsPlanned) {
  write_run(GetParam().shape);
  const Outcome outcome = run("train run.yaml --phantom-gpu H100" + GetParam().settings);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json memory = this->memory();
  EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured"));
  int64_t sum = 0;
  for (const auto& [name, bytes] : memory.at("components").items()) {
    EXPECT_EQ(bytes.at("dry_run"), bytes.at("measured")) << name;
    sum += bytes.at("measured").get<int64_t>();
  }
  EXPECT_EQ(sum, memory.at("peak").at("measured").get<int64_t>());
  EXPECT_GT(memory.at("components").at("kernels").at("measured").get<int64_t>(), 0);
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "phantom-run.txt"));
}

INSTANTIATE_TEST_SUITE_P(Cuda, PhantomTrainMatrix, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_F(PhantomTrain, PlaysEveryStepWhateverItsLossesWouldSay) {
  write_run(0);
  const Outcome outcome =
      run("train run.yaml --phantom-gpu H100 eval_strategy=steps eval_steps=1 early_stopping_patience=1");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("evaluation at step 6"));
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
}

// cuBLAS has a workspace for the backward pass only after a first step.
TEST_F(PhantomTrain, EvaluatesBeforeTheFirstStepAloneAsPlanned) {
  write_run(0);
  for (const std::string settings : {"eval_strategy=no", "eval_strategy=steps eval_steps=1000"}) {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 eval_on_start=true " + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json evaluation = memory().at("phases").at("evaluation").at("peak");
    EXPECT_EQ(evaluation.at("dry_run"), evaluation.at("measured")) << settings;
    const bool warned = outcome.errors.find("the run ends before step 1000") != std::string::npos;
    EXPECT_EQ(warned, settings != "eval_strategy=no") << outcome.errors;
  }
}

// The ledger labels more than a million allocations in pieces.
TEST_F(PhantomTrain, AddsUpVeryManyMicroBatchesAsPlanned) {
  write_run(0);
  write_ids("data.jsonl", 6'000);
  const Outcome outcome = run(
      "train run.yaml --phantom-gpu H100 per_device_train_batch_size=1 gradient_accumulation_steps=6000 max_steps=1 "
      "save_strategy=no eval_strategy=no validation_file=null");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
}

// Of a vocabulary that is large enough for it.
TEST_F(PhantomTrain, AddsTheRowsOfATiedEmbeddingsGradientAsPlanned) {
  write_run(0);
  Json model = Json::parse(kShapes[0]);
  model.update({{"tie_word_embeddings", true}, {"vocab_size", 1 << 21}});
  write("model/config.json", model.dump());
  const Outcome outcome = run("train run.yaml --phantom-gpu H100 save_strategy=no");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
}

// Evaluations too, and rows of many lengths; documents and windows are flash attention's.
TEST_F(PhantomTrain, PlaysCudnnsAttentionAsPlanned) {
  write_run(1);
  Json model = Json::parse(kShapes[1]);
  model.update({{"head_dim", 64}, {"num_attention_heads", 4}});
  int runs = 0;
  const auto expect_planned = [&](int key_heads, const std::string& settings) {
    model["num_key_value_heads"] = key_heads;
    write("model/config.json", model.dump());
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 max_steps=2 attn_implementation=cudnn output_dir=" +
                                std::to_string(++runs) + settings);
    ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("cuDNN's attention"), HasSubstr("equal to the byte"))) << settings;
  };
  for (const int key_heads : {2, 4}) expect_planned(key_heads, " bf16=true");
  for (const std::string settings : {" fp16=true", " dtype=bfloat16 gradient_checkpointing=true",
                                     " bf16=true packing=true", " method=lora dtype=bfloat16 eval_on_start=true"}) {
    expect_planned(2, settings);
  }
}

TEST_F(PhantomTrain, LaunchesItsOwnKernelsUnlessTold) {
  const auto library = std::filesystem::path(FATHOM_PROGRAM).parent_path() / "lib" / "libfathom_cuda_kernels.so";
  write_run(1);
  const std::string log = "FATHOM_PHANTOM_LOG=1 ", command = "train run.yaml --phantom-gpu H100 max_steps=2";
  EXPECT_THAT(run(command + " output_dir=plain cuda_kernels=false", log).errors, Not(HasSubstr("fathom3ops4cuda")));
  if (!std::filesystem::exists(library)) {
    const Outcome warned = run(command + " output_dir=unset", log);
    EXPECT_EQ(warned.status, 0);
    EXPECT_THAT(warned.errors, AllOf(HasSubstr("fathom was built without nvcc"), Not(HasSubstr("fathom3ops4cuda"))));
    const Outcome refused = run(command + " cuda_kernels=true");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.errors, HasSubstr("built without fathom's CUDA kernels"));
    return;
  }
  for (const std::string settings : {"", " bf16=true", " method=lora dtype=bfloat16 gradient_checkpointing=true",
                                     " method=lora dtype=bfloat16 load_in_4bit=true bnb_4bit_use_double_quant=true",
                                     " method=lora load_in_8bit=true"}) {
    const Outcome outcome = run(command + settings, log);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    std::vector<std::string> kernels = {"6rotate", "6swiglu", "15swiglu_backward", "13cross_entropy"};
    if (settings.find("load_in") != std::string::npos) kernels.push_back("10dequantize");
    for (const std::string& kernel : kernels) {
      EXPECT_THAT(outcome.errors, ContainsRegex("fathom3ops4cuda" + kernel + ".*: swallowed")) << settings;
    }
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json peak = memory().at("peak");
    EXPECT_EQ(peak.at("dry_run"), peak.at("measured")) << settings;
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(PhantomTrain, UpdatesByItsOwnKernelAsPlanned) {
  if (!std::filesystem::exists(std::filesystem::path(FATHOM_PROGRAM).parent_path() / "lib/libfathom_cuda_kernels.so")) {
    GTEST_SKIP() << "built without CUDA kernels";
  }
  write_run(1);
  for (const std::string settings :
       {"optim=adamw", "optim=adamw dtype=bfloat16", "optim=adamw_8bit", "optim=adamw_bf16",
        "dtype=bfloat16 master_weights=fp32", "optim=adamw_8bit dtype=bfloat16 master_weights=stochastic",
        "dtype=bfloat16 master_weights=stochastic",
        "optim=adamw optimizer_in_backward=true gradient_accumulation_steps=1 max_grad_norm=0"}) {
    SCOPED_TRACE(settings);
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 max_steps=2 " + settings, "FATHOM_PHANTOM_LOG=1 ");
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    for (const std::string kernel : {"11mixed_adamw", "15sums_of_squares", "12norm_of_sums"}) {
      EXPECT_THAT(outcome.errors, ContainsRegex("fathom3ops4cuda" + kernel + ".*: swallowed"));
    }
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
    const Json states = memory().at("components").at("optimizer_states");
    EXPECT_EQ(states.at("analytic"), states.at("measured"));
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(PhantomTrain, ItsOwnKernelsAreForGpus) {
  write_run(0);
  const Outcome refused = run("train run.yaml device=cpu cuda_kernels=true");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("cuda_kernels is true, but this run is on the CPU"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(PhantomTrain, NothingTakesItsFolderForAModel) {
  write_run(0);
  ASSERT_EQ(run("train run.yaml --phantom-gpu H100 max_steps=2").status, 0);
  for (const char* command :
       {"generate out --prompt x", "logits out --ids 1,2 --out l.safetensors",
        "eval run.yaml model_name_or_path=out random_init=false", "train run.yaml resume_from_checkpoint=auto",
        "train run.yaml output_dir=other resume_from_checkpoint=out/checkpoint-2"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("phantom GPU")) << command;
  }
}

TEST_F(PhantomTrain, ResumesAsAPhantom) {
  write_run(0);
  ASSERT_EQ(run("train run.yaml --phantom-gpu H100").status, 0);
  std::filesystem::remove_all(folder_ / "out" / "checkpoint-6");
  const Outcome outcome = run("train run.yaml --phantom-gpu H100 resume_from_checkpoint=auto");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("resuming from"));
}

TEST_F(PhantomTrain, TooLittleMemoryIsRefusedAndWhenForcedExplained) {
  write_run(0);
  const std::string small = "train run.yaml --phantom-gpu H100 --gpu-memory 40MiB";
  const Outcome refused = run(small);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr("--force"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const Outcome forced = run(small + " --force");
  EXPECT_EQ(forced.status, 1);
  EXPECT_THAT(forced.errors, HasSubstr("out of memory"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
}

// Short rows first, a long one last: the memory suffices for the first steps and their checkpoints, but not for the
// logits of the long rows, not even in a resumed run, which has one cuBLAS workspace of 32 MiB beside them, not two.
class PhantomOutOfMemory : public PhantomTrain {
 protected:
  static constexpr char kTooSmall[] = " --gpu-memory 104MiB --force";

  void write_run() {
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 30000,
        "hidden_size": 24, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})");
    std::string lines;
    for (const int length : {7, 9, 5, 8, 7, 6, 9, 8, 300, 280}) {
      lines += Json{{"input_ids", std::vector<int>(static_cast<size_t>(length), 5)}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
shuffle: false
per_device_train_batch_size: 2
num_train_epochs: 1
save_strategy: steps
save_steps: 2
logging_steps: 1
output_dir: out
)");
  }
  Json manifest_files() const {
    Json files = Json::object();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "out" / "checkpoint-4")) {
      if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path()).size();
    }
    return files;
  }
};

TEST_F(PhantomOutOfMemory, SaysWhatWasAskedForAndWhatWasAlive) {
  write_run();
  const Outcome outcome = run(std::string("train run.yaml --phantom-gpu H100") + kTooSmall);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("out of memory"));
  EXPECT_THAT(outcome.errors, HasSubstr("Tried to allocate"));
  EXPECT_THAT(outcome.errors, HasSubstr("104.00 MiB"));
  for (const char* component : {"weights", "optimizer_states", "activations", "kernels"}) {
    EXPECT_THAT(outcome.errors, HasSubstr(component));
  }
  EXPECT_THAT(outcome.errors, HasSubstr("model.embed_tokens.weight"));
}

// Before any step has ended: the workspace is not taken for an activation.
TEST_F(PhantomOutOfMemory, KnowsTheWorkspaceOfTheFirstStep) {
  write_run();
  const Outcome outcome =
      run(std::string("train run.yaml per_device_train_batch_size=10 --phantom-gpu H100") + kTooSmall);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("out of memory"));
  EXPECT_THAT(outcome.errors, ContainsRegex("kernels *33,554,432"));
  EXPECT_THAT(outcome.errors, HasSubstr("cuBLAS workspace"));
}

TEST_F(PhantomOutOfMemory, LeavesTheLastCheckpointIntact) {
  write_run();
  const std::string train = "train run.yaml --phantom-gpu H100";
  ASSERT_EQ(run(train + kTooSmall).status, 1);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "out" / "checkpoint-4"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
  const Json saved = manifest_files();
  EXPECT_EQ(run("inspect out/checkpoint-4").status, 0);

  // Again with too little: it fails again and takes nothing away.
  const Outcome again = run(train + kTooSmall + " resume_from_checkpoint=auto");
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.errors, HasSubstr("resuming from"));
  EXPECT_THAT(again.errors, HasSubstr("out of memory"));
  EXPECT_EQ(manifest_files(), saved);

  const Outcome resumed = run(train + " resume_from_checkpoint=auto");
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors, HasSubstr("checkpoint-4"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
}

// What a run may take is what is free, and cached memory that must be given back first is played out, not guessed: a
// run is refused, or it comes to its end.
TEST_F(PhantomTrain, RunsWithinTheLeastMemoryThatItsPlanAllows) {
  write_run(1);
  int ended = 0, refused = 0;
  for (int megabytes = 76; megabytes <= 90; megabytes += 2) {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 --gpu-memory " + std::to_string(megabytes) + "MiB");
    ++(outcome.status == 0 ? ended : refused);
    if (outcome.status != 0) {
      EXPECT_THAT(outcome.errors, HasSubstr("the run does not fit")) << megabytes;
    }
  }
  EXPECT_GT(ended, 1);
  EXPECT_GT(refused, 1);
}

// ---- every GPU of the list ----

std::vector<std::string> listed_gpus() {
  std::vector<std::string> names;
  std::istringstream lines(read_file(std::filesystem::path(FATHOM_SOURCE_DIR) / "configs" / "gpus.yaml"));
  for (std::string line; std::getline(lines, line);) {
    const bool is_name = !line.empty() && line.back() == ':' && std::isalnum(static_cast<unsigned char>(line[0])) != 0;
    if (is_name) names.push_back(line.substr(0, line.size() - 1));
  }
  return names;
}

class PhantomGpuOfTheList : public PhantomTrain, public ::testing::WithParamInterface<std::string> {};

TEST_P(PhantomGpuOfTheList, PlansAndPlaysARun) {
  write_run(0);
  const Outcome estimate = run("estimate run.yaml --json bf16=true --gpu " + GetParam());
  if (GetParam() == "T4" || GetParam().starts_with("V100")) {  // older than BF16, or than LibTorch's kernels
    EXPECT_EQ(estimate.status, 2);
    EXPECT_THAT(estimate.errors, ::testing::HasSubstr("compute capability 7."));
    return;
  }
  ASSERT_EQ(estimate.status, 0) << estimate.errors;
  const Json planned = parse_json(estimate.output, "estimate");
  EXPECT_EQ(planned.at("target").at("name"), GetParam());
  ASSERT_EQ(run("train run.yaml bf16=true --phantom-gpu " + GetParam()).status, 0);
  const Json played = memory();
  EXPECT_EQ(planned.at("peak").at("dry_run"), played.at("peak").at("measured"));
  // cuBLAS's default workspace of LibTorch 2.11, for the forward and for autograd's thread.
  const int64_t workspace = planned.at("target").at("compute_capability") == "9.0" ? 33554432 : 8519680;
  EXPECT_EQ(played.at("components").at("kernels").at("measured"), Json(2 * workspace));
}

INSTANTIATE_TEST_SUITE_P(Listed, PhantomGpuOfTheList, ::testing::ValuesIn(listed_gpus()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

// ---- traces ----

class PhantomTrace : public PhantomTrain {
 protected:
  // The events without addresses; those of segments apart.
  struct Trace {
    std::string blocks, segments, addresses;
  };
  Trace play(const std::string& name, const std::string& options, const std::string& environment = "") {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 --trace " + name + " " + options, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    Trace trace;
    std::istringstream lines(read_file(folder_ / name));
    for (std::string line; std::getline(lines, line);) {
      const bool segment = line.starts_with("segment_");
      const size_t address = line.rfind(' ');
      if (!segment) trace.blocks += line + "\n";
      if (segment) trace.segments += line.substr(0, address) + "\n";
      if (segment) trace.addresses += line.substr(address + 1) + "\n";
    }
    return trace;
  }
};

// Whatever addresses the driver chooses, the run asks for the same blocks in the same order on the same streams; where
// the addresses of another run are handed out again, its segments are the same too, and so are allocated and reserved.
TEST_F(PhantomTrace, IsReplayedWithTheAddressesOfAnotherRun) {
  write_run(1);
  const Trace plain = play("plain", "", kFixedSegments);
  EXPECT_GT(std::count(plain.blocks.begin(), plain.blocks.end(), '\n'), 5000);
  const Trace placed = play("placed", "--placement 5", kFixedSegments);
  const Json measured = memory();
  EXPECT_EQ(placed.blocks, plain.blocks);
  EXPECT_NE(placed.addresses, plain.addresses);
  const Trace replayed = play("replayed", "--segments " + (folder_ / "placed").string(), kFixedSegments);
  EXPECT_EQ(replayed.blocks, placed.blocks);
  EXPECT_EQ(replayed.segments, placed.segments);
  for (const char* figure : {"allocated", "reserved"}) {
    EXPECT_EQ(memory().at(figure).at("measured"), measured.at(figure).at("measured"));
  }
}

// Not even the order in which blocks are given back depends on where the host's memory happens to lie.
TEST_F(PhantomTrace, IsTheSameInEveryProcess) {
  write_run(1);
  for (const char* settings : {"method=lora bf16=true gradient_checkpointing=true", "bf16=true",
                               "bf16=true gradient_checkpointing=true attn_implementation=math"}) {
    const Trace first = play("first", settings);
    for (int process = 0; process < 3; ++process) EXPECT_EQ(play("again", settings).blocks, first.blocks) << settings;
  }
}

TEST_F(PhantomTrace, RefusesTheSegmentsOfAnotherConfig) {
  write_run(1);
  play("small", "", kFixedSegments);
  std::filesystem::remove_all(folder_ / "out");
  const Outcome outcome =
      run("train run.yaml --phantom-gpu H100 per_device_train_batch_size=10 max_length=60 --segments small",
          kFixedSegments);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("phantom: "));
}

}  // namespace
}  // namespace fathom
