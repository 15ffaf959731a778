// The command line: answers without LibTorch, soon, with the right exit status.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using CommandLine = ProgramTest;

TEST_F(CommandLine, HelpVersionAndConfigErrorsAnswerInUnder50Milliseconds) {
  write("bad.yaml", "learning_rat: 1\nbf16: yes\nmicro_batch_size: 2\n");
  for (const char* arguments : {"--help", "--version", "train --help", "train bad.yaml", "--help-config"}) {
    // The fastest of a few: other processes of a test run take their share of the CPU.
    double fastest = 1;
    for (int i = 0; i < 10; ++i) fastest = std::min(fastest, run(arguments).seconds);
    EXPECT_LT(fastest, 0.05) << arguments;
  }
}

TEST_F(CommandLine, HelpSaysTheCommandsAndTheKeys) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* command :
       {"train", "eval", "estimate", "generate", "logits", "export", "quantize", "inspect", "doctor", "formats"}) {
    EXPECT_THAT(help.output, HasSubstr(std::string("\n  ") + command + " "));
  }
  EXPECT_THAT(help.output, ::testing::Not(HasSubstr("answer-plan")));
  const Outcome train = run("train --help");
  EXPECT_EQ(train.status, 0);
  EXPECT_THAT(train.output, AllOf(HasSubstr("--phantom-gpu"), HasSubstr("\n  learning_rate "), HasSubstr("CONFIG")));
  EXPECT_THAT(run("--version").output, StartsWith("fathom "));
}

// A command is told of in one file of app/commands, which names it to one of these classes with a line of help.
TEST_F(CommandLine, EveryFileOfACommandIsInTheTable) {
  const std::regex declared(R"re(\b(?:Command|Invocation|ModelUse)\("(\w+)",\s+"([^"]+)")re");
  const std::string help = run("--help").output;
  size_t commands = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FATHOM_SOURCE_DIR "/app/commands")) {
    std::smatch found;
    const std::string text = read_file(entry.path());
    if (!std::regex_search(text, found, declared)) continue;
    ++commands;
    EXPECT_THAT(help, HasSubstr("\n  " + found.str(1) + " ")) << entry.path();
    const Outcome own = run(found.str(1) + " --help");
    EXPECT_EQ(own.status, 0) << own.errors;
    EXPECT_THAT(own.output, StartsWith(found.str(2).substr(0, 60))) << entry.path();
  }
  const std::string listed = help.substr(help.find("Subcommands:"));
  const std::regex line("\n  \\w");
  EXPECT_EQ(commands, std::distance(std::sregex_iterator(listed.begin(), listed.end(), line), {}));
}

TEST_F(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(run("help").output, run("--help").output);
  EXPECT_EQ(run("help train").output, run("train --help").output);
}

TEST_F(CommandLine, ConfigErrorsAreToldTogetherAndExitWith2) {
  write("bad.yaml", "learning_rat: 1\nbf16: yes\nmicro_batch_size: 2\n");
  const Outcome outcome = run("train bad.yaml seed=x");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("error: bad.yaml:1:1: learning_rat: unknown key; did you mean learning_rate?\n"),
                    HasSubstr("error: bad.yaml:2:7: bf16: expected true or false, got 'yes'; write true\n"),
                    HasSubstr("error: bad.yaml:3:1: micro_batch_size: another tool's name; here it is "
                              "per_device_train_batch_size\n"),
                    HasSubstr("error: command line: seed: expected a whole number")));
}

TEST_F(CommandLine, BadUsageExitsWith2) {
  write("good.yaml", "model_name_or_path: m\ntrain_file: t\noutput_dir: o\n");
  const std::pair<const char*, const char*> cases[] = {
      {"", "no command is given"},
      {"finetune", "unknown command 'finetune'; commands are train,"},
      {"train", "CONFIG|MODEL is required"},
      {"train nowhere.yaml", "nowhere.yaml"},
      {"train good.yaml --nonsense", "--nonsense"},
      {"train good.yaml device=cpu --phantom-gpu H100", "add device=cuda"},
      {"train good.yaml --phantom-gpu Voodoo2", "unknown GPU 'Voodoo2'; `fathom list gpus`"},
      {"estimate good.yaml --gpu Voodoo2", "unknown GPU"},
      {"estimate good.yaml lora_rank=8", "here it is lora_r"},
      {"logits m --ids 1,x --out f", "--ids: expected token ids like 1,2,3"},
      {"logits m --ids 1,,2 --out f", "--ids"},
      {"logits m --ids -1 --out f", "--ids"},
      {"generate m", "there is no prompt"},
      {"generate m --prompt a --prompts b", "excludes"},
      {"generate m --chat --prompt a", "excludes"},
      {"generate m --system a", "requires"},
      {"generate m --prompt a --temperature -1", "--temperature: expected a number, at least 0"},
      {"generate m --prompt a --temperature nan", "--temperature"},
      {"generate m --prompt a --temperature 1 --top-p 0", "--top-p: expected a number above 0"},
      {"generate m --prompt a --top-k 5", "--top-k requires --temperature"},
      {"generate m --prompt a --top-p 0.9", "--top-p requires --temperature"},
      {"generate m --prompt a --seed 3", "--seed requires --temperature"},
      {"generate m --prompt a --max-new-tokens 0", "--max-new-tokens"},
      {"inspect", "PATH is required"},
      {"trian good.yaml", "did you mean train?"},
      {"estimate good.yaml --gpu RTX4091", "unknown GPU 'RTX4091'; did you mean RTX-4090?"},
      {"estimate good.yaml --gpu MI300X", "unknown GPU 'MI300X': fathom knows NVIDIA's alone"},
      {"estimate good.yaml --gpu V100-16GB", "compute capability 7.0, for which LibTorch 2.11 with CUDA 13 has no"},
      {"estimate lama3-8b", "did you mean llama-3-8b?"},
      {"estimate deepseek-ai/DeepSeek-V2 --gpu H100",
       "is of no family that fathom trains; `fathom phantom --gpu H100 --no-w"},
      {"train gemma-4-e2b", "is of no family that fathom trains; `fathom phantom"},
      {"preview deepseek-ai/DeepSeek-V2", "is of no family that fathom trains"},
      {"train gpt-oss-20b", "is a known shape, without weights or a tokenizer"},
      {"estimate qwen3-vl-30b-a3b", "is of no family that fathom trains"},
      {"train llama-3.1-8b", "is a known shape, without weights or a tokenizer"},
      {"estimate llama-3.2-1b --gpu H100 --gpu-memory 99999TiB", "--gpu-memory: expected a size from 1 MiB to 8 TiB"},
      {"estimate llama-3.2-1b --gpu H100 --gpu-memory 24", "--gpu-memory: expected a size from 1 MiB to 8 TiB"},
      {"train good.yaml --dry-run", "--dry-run: a command here; `fathom estimate`"},
      {"train good.yaml --batch-size 4", "--batch-size: another tool's name; write per_device_train_batch_size=4"},
      {"export good --out o --output x", "export has no option --output"},
      {"train good.yaml --lora", "--lora: another tool's name; here it is method (true is method: lora)"},
      {"estimate good.yaml lora=true", "lora: another tool's name; here it is method (true is method: lora)"},
      {"train good.yaml --learning_rate 1e-4", "is a key of the config, not an option; write learning_rate=1e-4"},
      {"train good.yaml --learning-rate=1e-4", "write learning_rate=1e-4"},
      {"train good.yaml --bf16", "write bf16=VALUE"},
      {"estimate good.yaml --gpu-memory 8GiB", "--gpu-memory is used only with --gpu NAME"},
      {"estimate good.yaml --price-per-hour 3", "--price-per-hour is used only with --tokens or --gpu-hours"},
      {"estimate good.yaml --tokens 1B --gpu-hours 8", "--tokens is used only without --gpu-hours"},
      {"doctor --phantom-gpu H100", "--phantom-gpu is used only with --calibrate"},
      {"advise good.yaml --vary batch --keep method", "--keep is used only with --vary techniques"},
      {"train good.yaml --gpu-memory 8GiB", "--gpu-memory is used only with --phantom-gpu NAME"},
      {"preview good.yaml --index -1", "--index"},
      {"preview good.yaml --index 1 --samples 2", "excludes"},
      {"formats --largest 1 2", "--largest: expected a number above 0 that no other exceeds, got '1'"},
      {"estimate good.yaml --explain --json", "--explain is used only without --json"},
      {"generate m --prompt a --temperature 0 --top-k 5", "--top-k is used only with a --temperature above 0"},
      {"estimate 7B bf16=true", "key=value is not used with a number of parameters"},
      {"list", "WHAT is required"},
      {"list cars", "expected one of gpus, models, got 'cars'"},
      {"list gpu", "did you mean gpus?"},
      {"list",
       "WHAT is required (gpus (configs/gpus.yaml) or models (configs/models)); `fathom list --help` says more"},
      {"train good.yaml --gpu H100",
       "train has no option --gpu, which is one of estimate, advise, phantom; did you mean --phantom-gpu?"},
      {"estimate good.yaml --explian", "estimate has no option --explian; did you mean --explain?"},
      {"estimate good.yaml -g H100",
       "estimate has no option -g; did you mean --gpu? `fathom estimate --help` says more"},
      {"advise good.yaml --vary lenght", "got 'lenght'; did you mean length?"},
      {"quantize m --out q --format nf5", "did you mean nf4?"},
      {"generate m --prompt a --activations int4", "expected one of none, int8, got 'int4'; did you mean int8?"},
      {"estimate good.yaml H100", "expected key=value, got 'H100'; an option's value stands behind its name"},
      {"generate m 'my question'", "generate: expected key=value, got 'my question'; a prompt stands behind --prompt"},
      {"generate m 'is a=b'", "got 'is a=b'; a prompt stands behind --prompt"},
      {"generate m --prompt a --temperature abc", "--temperature: expected a number, got 'abc'; `fathom generate"},
      {"generate m --prompt a --max-new-tokens 1.5", "--max-new-tokens: expected a whole number within its range"},
      {"doctor now", "'now' was not expected behind fathom doctor"},
      {"--vesion", "fathom has no option --vesion; did you mean --version?"},
      {"help trian", "unknown command 'trian'; did you mean train?"},
      {"estimate llama-3-8b --inference --page a.html", "--page is not used with --inference"}};
  for (const auto& [arguments, said] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, AllOf(StartsWith("error: "), HasSubstr(said))) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
  }
}

// Of every option that `estimate` has, hidden ones too: a use of it that looks at a few refuses all others.
TEST_F(CommandLine, OptionsThatAUseDoesNotLookAtAreRefused) {
  std::vector<std::string> options;
  const std::string help = run("estimate --help").output;
  for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos; ++at) {
    const size_t name = at + 3;
    options.push_back(help.substr(name, help.find_first_of(" ,\n", name) - name));
  }
  ASSERT_GE(options.size(), 12U) << help;
  for (const std::string& option : options) {
    if (option == "--json" || option == "--help") continue;
    const std::string argument =
        option == "--gpu"          ? "H100"
        : option == "--gpu-memory" ? "8GiB"
        : option == "--page"       ? "page.html"
        : help.find(option + " ") != std::string::npos && help[help.find(option + " ") + option.size() + 1] != ' ' ? "2"
                                                                                                                   : "";
    for (const std::string use : {"7B ", "smollm2-135m --attention "}) {
      if (option == "--attention" && use != "7B ") continue;
      const Outcome outcome = run("estimate " + use + option + " " + argument);
      EXPECT_EQ(outcome.status, 2) << use << option;
      EXPECT_THAT(outcome.errors, HasSubstr(option + " is not used with")) << use;
    }
  }
}

TEST_F(CommandLine, ListsWhatCanBeNamed) {
  const Outcome gpus = run("list gpus");
  EXPECT_EQ(gpus.status, 0) << gpus.errors;
  EXPECT_THAT(gpus.output, AllOf(HasSubstr("\nRTX-4090 "), HasSubstr("\nT4 "), HasSubstr("\nRTX-A6000 ")));
  const Json list = parse_json(run("list gpus --json").output, "list");
  for (const Json& gpu : list.at("gpus")) {
    EXPECT_EQ(gpu.at("bf16").get<bool>(), std::stod(gpu.at("compute_capability").get<std::string>()) >= 8) << gpu;
  }
  const Outcome models = run("list models");
  EXPECT_EQ(models.status, 0) << models.errors;
  EXPECT_THAT(models.output, HasSubstr("\nllama-3.1-8b   "));
  const Json shapes = parse_json(run("list models --json").output, "list");
  EXPECT_GE(shapes.at("models").size(), 30U);
}

TEST_F(CommandLine, LibTorchThatIsNotThereIsSaid) {
  write("m/config.json", "{}");
  EXPECT_THAT(run("estimate 7B", "FATHOM_TORCH=/nonexistent ").output, HasSubstr("168.0 GB"));
  const Outcome outcome = run("estimate m", "FATHOM_TORCH=/nonexistent ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("FATHOM_TORCH is /nonexistent, which has no lib/libtorch_cpu.so"),
                                    HasSubstr("pip install torch==2.11.0")));
}

TEST_F(CommandLine, LibTorchOfAnotherVersionIsRefused) {
  write("torch/lib/libtorch_cpu.so", "");
  write("torch/version.py", "__version__ = '2.10.1+cu128'\n");
  write("m/config.json", "{}");
  EXPECT_THAT(run("estimate m", "FATHOM_TORCH=$PWD/torch ").errors, HasSubstr("is version 2.10.1+cu128, not 2.11.x"));
}

TEST_F(CommandLine, ResultsThatCannotBeWrittenAreAFailure) {
  const Outcome outcome = run("--help >/dev/full; echo $? | cat >status.txt; true");
  EXPECT_EQ(read_file(folder_ / "status.txt"), "1\n") << outcome.errors;
}

TEST_F(CommandLine, TheProgramNeedsNoLibraryOfLibTorch) {
  const std::string list = "ldd.txt";
  ASSERT_EQ(std::system(("ldd '" FATHOM_PROGRAM "' > '" + (folder_ / list).string() + "'").c_str()), 0);
  EXPECT_THAT(read_file(folder_ / list), AllOf(::testing::Not(HasSubstr("torch")), ::testing::Not(HasSubstr("libc10")),
                                               ::testing::Not(HasSubstr("yaml"))));
}

}  // namespace
}  // namespace fathom
