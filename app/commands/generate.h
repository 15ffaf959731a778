// `fathom generate` on the command line: the model, the prompts and how they are put.
#pragma once

#include <unistd.h>

#include <cmath>
#include <iostream>
#include <iterator>
#include <sstream>

#include "app/words/shared_options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/prompt_form.h"

namespace fathom::app {

class Generate final : public ModelUse {
 public:
  Generate()
      : ModelUse("generate", "Text from a prompt, which is read from stdin if none is given, or a conversation") {}
  std::vector<Option> options() override {
    const auto drawn = [this](const char* option, auto& value, const char* type, const char* text) {
      return Option(option, value, type, text)
          .needs("--temperature")
          .used_only(temperature > 0, "with a --temperature above 0");
    };
    return {words.subject_option("MODEL|RUN", "A model's folder, a run's, or an adapter's, whose base is found"),
            adapter_option(),
            activations_option(),
            {"--prompt", prompt, "TEXT", "The prompt"},
            Option("--prompts", prompts_file, "FILE", "A file of prompts, one a line").excludes("--prompt"),
            Option("--prompt-format", prompt_format, "auto|plain|alpaca|chat",
                   "How prompts are put; auto: as the run was trained")
                .one_of({"auto", "plain", "alpaca", "chat"}),
            {"--stop", stops, "TEXT", "A text at which an answer ends; may be given again"},
            Option("--chat", chat, "", "A conversation: each line of stdin is a turn; /help")
                .excludes("--prompt")
                .excludes("--prompts"),
            Option("--system", system_prompt, "TEXT", "The conversation's system message").needs("--chat"),
            {"--max-new-tokens", max_new_tokens, "N", "At most so many"},
            {"--temperature", temperature, "T", "0: always the likeliest token"},
            drawn("--top-k", top_k, "K", "Of the K likeliest tokens; 0: of all"),
            drawn("--top-p", top_p, "P", "Of the likeliest that make up this probability"),
            drawn("--seed", seed, "S", "Of the sampling"),
            words.overrides_option()};
  }
  void complete() override {
    refuse_bare_prompts();
    choose_prompt_form(find_model(words, *this));
    check_numbers();
    if (!chat) read_prompts();
    choose_device(*this);
  }

  ConfigWords words;
  std::string prompt, prompts_file;
  std::string prompt_format = "auto";
  std::vector<std::string> prompts;                         // at least one, but for a chat
  data::PromptForm prompt_form = data::PromptForm::kPlain;  // how they are put to the model
  std::vector<std::string> stops;                           // texts at which an answer ends, not part of it
  bool chat = false;                                        // a conversation over stdin and stdout instead of prompts,
  std::string system_prompt;                                //   with this system message; empty: none
  int64_t max_new_tokens = 128;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: no limit
  double top_p = 1;

 private:
  void refuse_bare_prompts() const {
    for (const std::string& text : words.overrides) {
      const size_t end = text.find_first_of("= ");
      if (end != std::string::npos && text[end] == '=') continue;
      throw UsageError("generate: expected key=value, got '" + text.substr(0, 64) + "'",
                       "a prompt stands behind --prompt, an option's value behind its name");
    }
  }
  // Told where prompts are not put as they stand.
  void choose_prompt_form(const FoundModel& model) {
    using data::PromptForm;
    if (prompt_format == "alpaca") prompt_form = PromptForm::kAlpaca;
    if (prompt_format == "chat") prompt_form = PromptForm::kChat;
    if (prompt_format != "auto" || chat || !model.run) return;
    const std::string where = model.used.run.parent_path().string();
    const auto form = data::prompt_form_of(*model.run);
    if (!form) {
      log_warning("the data of " + where +
                  " cannot be read, so that prompts are taken as they stand; if it was trained "
                  "on instructions or conversations, add --prompt-format alpaca or chat");
    } else if (*form != PromptForm::kPlain) {
      const std::string how = *form == PromptForm::kAlpaca ? "inside alpaca's words" : "by the chat template";
      log_info("prompts are put as " + where + " was trained, " + how + "; --prompt-format plain: as they stand");
    }
    prompt_form = form.value_or(PromptForm::kPlain);
  }
  void check_numbers() const {
    const auto require = [](bool holds, const std::string& option, const std::string& expected) {
      if (!holds) throw UsageError("--" + option + ": expected " + expected);
    };
    require(max_new_tokens >= 1, "max-new-tokens", "at least 1");
    require(std::isfinite(temperature) && temperature >= 0, "temperature", "a number, at least 0");
    require(top_k >= 0, "top-k", "at least 0");
    require(top_p > 0 && top_p <= 1, "top-p", "a number above 0 and at most 1");
  }
  void read_prompts() {
    if (!prompt.empty()) {
      prompts = {prompt};
    } else if (!prompts_file.empty()) {
      std::istringstream lines(read_file(prompts_file, size_t{256} << 20));
      for (std::string line; std::getline(lines, line);) {
        if (!line.empty()) prompts.push_back(line);
      }
    } else {
      if (::isatty(STDIN_FILENO) == 1) log_info("write the prompt here, and end it with Ctrl-D on a line of its own");
      std::string text((std::istreambuf_iterator<char>(std::cin)), {});
      while (!text.empty() && text.back() == '\n') text.pop_back();
      if (!text.empty()) prompts.push_back(text);
    }
    if (prompts.empty())
      throw UsageError("there is no prompt", "give --prompt TEXT, --prompts FILE, or a text on stdin");
  }
};

}  // namespace fathom::app
