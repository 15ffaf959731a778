// Subcommands and options by CLI11.
#include "app/command_line.h"

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <string_view>

#include "app/option_uses.h"
#include "app/raw_command.h"
#include "app/usage.h"
#include "base/error.h"
#include "config/describe.h"
#include "quant/format_names.h"
#include "report/table.h"

namespace fathom::app {
namespace {

constexpr const char* kDescription =
    "fathom fine-tunes large language models and tells beforehand where every byte of memory goes.";
constexpr const char* kVersionText = "fathom " FATHOM_VERSION " (for LibTorch 2.11)\n";

void add_overrides(CLI::App* command, RawCommand& raw) {
  command->add_option("overrides", raw.overrides, "Config keys, in place of the file's or the defaults")
      ->type_name("key=value");
  command->footer(command->get_name() == "train"
                      ? "\nConfig keys, with their defaults (docs/config.md says more):\n\n" + config::keys_help()
                      : "\n`fathom train --help` lists the config keys; docs/config.md says more.");
}

void add_json(CLI::App* command, RawCommand& raw) {
  command->add_flag("--json", raw.invocation.json, "One JSON object on stdout and nothing else");
}

// How a model is to be used.
void add_use(CLI::App* command, RawCommand& raw) {
  command->add_option("--adapter", raw.invocation.adapter, "A folder with adapter_config.json")->type_name("DIR");
  command
      ->add_option_function<std::string>(
          "--activations", [&raw](const std::string& type) { raw.invocation.int8_activations = type == "int8"; },
          "int8: the layers' projections and what they multiply in INT8")
      ->type_name("none|int8")
      ->check(one_of({"none", "int8"}, /*in_help=*/false));
}

CLI::Option* add_subject(CLI::App* command, std::string& target, const char* name, const char* description) {
  return command->add_option(name, target, description)->required()->type_name("");
}

void add_gpu_memory(CLI::App* command, RawCommand& raw) {
  command->add_option("--gpu-memory", raw.gpu_memory, "Memory in place of that GPU's, as 24GiB")->type_name("SIZE");
}

void add_budget(CLI::App* command, RawCommand& raw) {
  plan::Budget& budget = raw.invocation.budget;
  command->add_option("--tokens", raw.tokens, "Time and cost to train on so many, as 300M or 2T")->type_name("N");
  command->add_option("--gpu-hours", raw.gpu_hours, "Cost of so many, instead of reckoned ones")->type_name("N");
  command->add_option("--gpus", budget.gpus, "That share the work")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--price-per-hour", budget.price_per_hour, "Dollars for all of them, instead of the listed price")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1e9));
}

void add_advise(CLI::App& app, RawCommand& raw) {
  CLI::App* advise =
      app.add_subcommand("advise", "What fits: the largest batch, length or rank, or the fastest settings");
  add_subject(advise, raw.subject, "CONFIG|MODEL",
              "A YAML file, a folder with config.json, a .json file, or a known model (llama-2-7b)");
  advise->add_option("--budget", raw.bound, "Of memory, as 24GiB; without it memory_budget, or what the device has")
      ->type_name("SIZE");
  advise->add_option("--gpu", raw.gpu, "Within the memory of a GPU of configs/gpus.yaml")->type_name("NAME");
  add_gpu_memory(advise, raw);
  advise->add_option("--vary", raw.vary, "batch, length, rank: its largest value; techniques: the fastest combination")
      ->type_name("WHAT")
      ->check(one_of({"batch", "length", "rank", "techniques"}))
      ->capture_default_str();
  advise
      ->add_option("--keep", raw.keep,
                   "Techniques that stay: method, precision, optimizer, checkpointing, attention, batch")
      ->type_name("GROUP,...");
  add_json(advise, raw);
  add_overrides(advise, raw);
}

void add_training_commands(CLI::App& app, RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  CLI::App* train = app.add_subcommand("train", "Fine-tune: plans first, refuses what cannot fit, resumes if told");
  add_subject(train, raw.subject, "CONFIG", "A YAML file");
  train->add_option("--phantom-gpu", raw.phantom_gpu, "Play the run on a GPU of configs/gpus.yaml that is not there")
      ->type_name("NAME");
  add_gpu_memory(train, raw);
  train->add_option("--placement", invocation.placement)->group("");
  train->add_option("--segments", invocation.segments)->group("");
  train->add_option("--trace", invocation.trace)->group("");
  train->add_option("--profile", invocation.profile, "Also a trace of three steps by LibTorch's profiler, for Perfetto")
      ->type_name("FILE.json");
  train->add_flag("--force", invocation.force, "Also what is predicted not to fit");
  add_overrides(train, raw);

  CLI::App* eval = app.add_subcommand("eval", "Loss and perplexity on validation_file");
  add_subject(
      eval, raw.subject, "CONFIG|RUN|MODEL",
      "A YAML file, whose model is scored, a run's folder: what it trained, or a model's, with validation_file=FILE");
  add_use(eval, raw);
  add_json(eval, raw);
  add_overrides(eval, raw);

  CLI::App* preview = app.add_subcommand("preview", "The samples as they are trained on, and what counts for the loss");
  add_subject(preview, raw.subject, "CONFIG", "A YAML file");
  CLI::Option* samples = preview->add_option("--samples", invocation.samples, "How many are shown")
                             ->type_name("N")
                             ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
                             ->capture_default_str();
  preview->add_option("--index", invocation.sample_index, "The one that is shown, counted from 0")
      ->type_name("I")
      ->check(CLI::NonNegativeNumber)
      ->excludes(samples);
  add_json(preview, raw);
  add_overrides(preview, raw);

  CLI::App* estimate = app.add_subcommand("estimate", "Memory, time and cost before the run, without weights");
  add_subject(estimate, raw.subject, "CONFIG|MODEL",
              "A YAML file, a folder with config.json, a .json file, a known model (llama-2-7b), or a number (7B)");
  estimate->add_option("--gpu", raw.gpu, "Plan for a GPU of configs/gpus.yaml")->type_name("NAME");
  add_gpu_memory(estimate, raw);
  estimate
      ->add_option("--placements", invocation.placements,
                   "Of memory segments that a GPU's ranges are taken over; without it 4, or 1 where segments expand")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  add_budget(estimate, raw);
  estimate->add_flag("--explain", invocation.explain,
                     "Also the formulas of the peak with their numbers, and all rules of thumb with reasons");
  estimate->add_flag("--inference", invocation.inference, "Instead: memory to use the model, weights and cache");
  estimate->add_option("--page", invocation.page, "Also a page with the step's memory over time")
      ->type_name("FILE.html");
  estimate->add_flag("--attention", invocation.attention,
                     "Instead: attention over lengths, flash against math, timed here");
  add_json(estimate, raw);
  add_overrides(estimate, raw);

  add_advise(app, raw);

  CLI::App* answer = app.add_subcommand("answer-plan", "")->group("");  // the child process that plays plans
  config::GpuSpec& gpu = raw.answering_gpu;
  answer->add_option("--name", gpu.name)->required();
  answer->add_option("--capability", gpu.compute_capability)->required();
  answer->add_option("--multiprocessors", gpu.multiprocessors)->required();
  answer->add_option("--memory", gpu.memory_bytes)->required();
}

void add_model_commands(CLI::App& app, RawCommand& raw) {
  Invocation& invocation = raw.invocation;
  CLI::App* generate = app.add_subcommand(
      "generate", "Text from a prompt, which is read from stdin if none is given, or a conversation");
  add_subject(generate, raw.subject, "MODEL|RUN", "A model's folder, a run's, or an adapter's, whose base is found");
  add_use(generate, raw);
  CLI::Option* prompt = generate->add_option("--prompt", raw.prompt, "The prompt")->type_name("TEXT");
  CLI::Option* prompts = generate->add_option("--prompts", raw.prompts_file, "A file of prompts, one a line")
                             ->type_name("FILE")
                             ->excludes(prompt);
  generate->add_option("--prompt-format", raw.prompt_format, "How prompts are put; auto: as the run was trained")
      ->type_name("auto|plain|alpaca|chat")
      ->check(one_of({"auto", "plain", "alpaca", "chat"}, /*in_help=*/false))
      ->capture_default_str();
  generate->add_option("--stop", invocation.stops, "A text at which an answer ends; may be given again")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  CLI::Option* chat =
      generate->add_flag("--chat", invocation.chat, "A conversation: each line of stdin is a turn; /help")
          ->excludes(prompt)
          ->excludes(prompts);
  generate->add_option("--system", invocation.system_prompt, "The conversation's system message")
      ->type_name("TEXT")
      ->needs(chat);
  generate->add_option("--max-new-tokens", invocation.max_new_tokens, "At most so many")
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* temperature =
      generate->add_option("--temperature", invocation.temperature, "0: always the likeliest token")
          ->type_name("T")
          ->capture_default_str();
  generate->add_option("--top-k", invocation.top_k, "Of the K likeliest tokens; 0: of all")
      ->type_name("K")
      ->capture_default_str()
      ->needs(temperature);
  generate->add_option("--top-p", invocation.top_p, "Of the likeliest that make up this probability")
      ->type_name("P")
      ->capture_default_str()
      ->needs(temperature);
  generate->add_option("--seed", invocation.seed, "Of the sampling")
      ->type_name("S")
      ->capture_default_str()
      ->needs(temperature);
  add_overrides(generate, raw);

  CLI::App* logits = app.add_subcommand("logits", "Raw logits as safetensors, to compare with other implementations");
  add_subject(logits, raw.subject, "MODEL|RUN", "A model's folder, a run's, or an adapter's, whose base is found");
  add_use(logits, raw);
  logits->add_option("--ids", raw.ids, "Token ids")->type_name("1,2,3")->required();
  logits->add_option("--out", invocation.out, "The file to write")->type_name("F")->required();
  add_overrides(logits, raw);

  CLI::App* exported = app.add_subcommand("export", "A run as a folder of its own for transformers or PEFT");
  add_subject(exported, raw.subject, "RUN|CHECKPOINT",
              "A run's output_dir, a checkpoint in it, or an adapter's folder");
  exported->add_option("--out", invocation.out, "The folder to make")->type_name("DIR")->required();
  exported->add_flag("--merge", invocation.merge, "The adapter added to its base: a whole model, in the base's dtype");
  exported->add_option("--base", invocation.base, "The base model, if it is not where the adapter says")
      ->type_name("DIR");

  CLI::App* quantize = app.add_subcommand(
      "quantize", "A model in fewer bits: a folder that fathom and transformers load, and what it cost");
  add_subject(quantize, raw.subject, "MODEL", "A model folder");
  quantize->add_option("--format", invocation.format, "Of its projections; fp32, fp16, bf16: of all weights")
      ->type_name("F")
      ->required()
      ->check(one_of(quant::format_names()));
  quantize->add_option("--out", invocation.out, "The folder to make")->type_name("DIR")->required();
  quantize->add_option("--eval", raw.evaluated, "Also the loss on this file, before and after")->type_name("FILE");
  add_json(quantize, raw);
  add_overrides(quantize, raw);

  CLI::App* inspect =
      app.add_subcommand("inspect", "What is inside a model folder, a safetensors file or a checkpoint");
  add_subject(inspect, raw.subject, "PATH", "A folder or a file");
  add_json(inspect, raw);

  CLI::App* report = app.add_subcommand("report", "The page of a run, report.html, anew from the files in its folder");
  add_subject(report, raw.subject, "RUN", "A run's output_dir");
  report->add_option("--out", invocation.out, "The page to write, instead of RUN/report.html")->type_name("FILE");
  report->add_option("--snapshot", invocation.snapshot, "Also the largest step for `python -m torch.cuda._memory_viz`")
      ->type_name("FILE.pickle");

  CLI::App* list = app.add_subcommand("list", "The known GPUs, or the known shapes of models");
  list->add_option("WHAT", invocation.listed, "gpus (configs/gpus.yaml) or models (configs/models)")
      ->type_name("")
      ->required()
      ->check(one_of({"gpus", "models"}));
  add_json(list, raw);

  CLI::App* formats = app.add_subcommand("formats", "Numbers in every format: bits, value, error; ranges and bytes");
  formats
      ->add_option("NUMBER", raw.numbers,
                   "As 3.14, -1e-8, 70000, inf, pi, or after -- -inf; without any pi, 0.1 and 70000")
      ->type_name("");
  formats
      ->add_option("--largest", raw.largest,
                   "Largest magnitude of the values that share a scale; without it a power of two above each number")
      ->type_name("X");
  add_json(formats, raw);

  CLI::App* doctor = app.add_subcommand("doctor", "What this machine offers, and what is missing");
  doctor->add_flag("--calibrate", raw.calibrate, "Measure this machine's speed, and its GPU's overhead, for estimates");
  doctor->add_option("--phantom-gpu", raw.phantom_gpu)->group("");
  add_json(doctor, raw);

  CLI::App* overhead = app.add_subcommand("answer-overhead", "")->group("");  // a child of doctor --calibrate
  overhead->add_flag("--bf16", invocation.config.bf16);
  overhead->add_flag("--math", raw.math);
  overhead->add_flag("--lora", raw.lora);
  overhead->add_flag("--gradient-checkpointing", invocation.config.gradient_checkpointing);
  overhead->add_option("--phantom-gpu", raw.phantom_gpu);
}

// "fathom train run.yaml 'learning_rate=2e-4 x'".
std::string quoted(int count, const char* const* arguments) {
  std::string text = "fathom";
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    const bool plain = !argument.empty() && argument.find_first_not_of(
                                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                                                "XYZ0123456789_-+=./,:@%^~") == std::string::npos;
    if (!plain) {
      for (size_t at = 0; (at = argument.find('\'', at)) != std::string::npos; at += 4)
        argument.replace(at, 1, "'\\''");
      argument = "'" + argument + "'";
    }
    text += " " + argument;
  }
  return text;
}

std::vector<std::string> given_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* each) { return each->count() > 0; })) {
    given.push_back(option->get_name());
  }
  return given;
}

}  // namespace

Parsed parse_command_line(int count, const char* const* arguments) {
  if (count >= 2 && std::string_view(arguments[1]) == "help") {  // as other programs have it: "fathom help train"
    const std::array<const char*, 3> asked = {arguments[0], count > 2 ? arguments[2] : "--help", "--help"};
    return parse_command_line(3, asked.data());
  }
  CLI::App app(kDescription, "fathom");
  RawCommand raw;
  bool version = false, help_config = false;
  app.add_flag("--version", version, "The version");
  app.add_flag("--help-config", help_config, "The page of config keys, in Markdown");
  app.require_subcommand(0, 1);
  app.footer(
      "\n`fathom COMMAND --help` says more.\n"
      "Exit status: 0 success, 1 failure, 2 bad usage or config, 128 + N stopped by\n"
      "signal N after a checkpoint was saved (129 SIGHUP, 130 SIGINT, 141 SIGPIPE, 143\n"
      "SIGTERM).");
  add_training_commands(app, raw);
  add_model_commands(app, raw);
  refuse_unknown_command(app, count, arguments);
  try {
    app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, report::folded(app.help())};
  } catch (const CLI::ParseError& error) {
    throw_usage_error(app, error, count, arguments);
  }
  if (version) return {std::nullopt, kVersionText};
  if (help_config) return {std::nullopt, config::keys_page()};
  if (app.get_subcommands().empty()) throw UsageError("no command is given", "run fathom --help");
  const CLI::App& command = *app.get_subcommands().front();
  raw.invocation.command = command.get_name();
  raw.invocation.command_line = quoted(count, arguments);
  raw.invocation.version = FATHOM_VERSION;
  check_options(command.get_name(), given_options(command), raw);
  return {complete(raw), ""};
}

}  // namespace fathom::app
