// Subcommands and options by CLI11.
#include "app/words/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "app/installation.h"
#include "app/words/manual.h"
#include "app/words/usage.h"
#include "base/error.h"
#include "config/describe.h"
#include "report/table.h"

namespace fathom::app {
namespace {

constexpr std::string_view kOverrides = "overrides";

// Adds the option to the command, with what CLI11 checks of it.
void declare(CLI::App& command, const Option& option) {
  const bool is_argument = option.name[0] != '-';
  CLI::Option* declared = std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return command.add_flag(option.name, *value, option.help);
        } else {
          CLI::Option* added = command.add_option(option.name, *value, option.help);
          bool has_default = std::is_arithmetic_v<Value>;
          if constexpr (std::is_same_v<Value, std::string>) has_default = !value->empty();
          if (has_default && !option.required) added->capture_default_str();
          if (std::is_same_v<Value, std::vector<std::string>> && !is_argument) added->expected(1)->take_all();
          return added;
        }
      },
      option.value);
  const std::string_view type = option.type;
  if (is_argument || !type.empty()) declared->type_name(option.type);
  if (*option.help == '\0' && !command.get_group().empty()) declared->group("");
  declared->required(option.required);
  if (!option.words.empty()) declared->check(one_of(option.words, type.find('|') == std::string_view::npos));
  if (option.range) {
    const auto& [least, most] = *option.range;
    if (most == Option::kUnlimited) {
      declared->check(CLI::NonNegativeNumber);
    } else if (std::holds_alternative<std::optional<double>*>(option.value)) {
      declared->check(CLI::Range(least, most));
    } else {
      declared->check(CLI::Range(static_cast<int64_t>(least), static_cast<int64_t>(most)));
    }
  }
  for (const char* other : option.excluded) declared->excludes(command.get_option(other));
  if (option.needed != nullptr) declared->needs(command.get_option(option.needed));
}

void declare(CLI::App& app, Command& command) {
  CLI::App& declared = *app.add_subcommand(command.name, command.help);
  if (*command.help == '\0') declared.group("");
  for (const Option& option : command.options()) {
    declare(declared, option);
    if (option.name != kOverrides) continue;
    declared.footer(command.name == std::string_view("train")
                        ? "\nConfig keys, with their defaults (docs/config.md says more):\n\n" + config::keys_help()
                        : "\n`fathom train --help` lists the config keys; docs/config.md says more.");
  }
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

// What is given and would not be looked at is refused, never ignored.
void check_options(const CLI::App& parsed, Command& command) {
  const auto is_given = [&](const Option& option) { return parsed.get_option(option.name)->count() > 0; };
  const std::optional<Use> use = command.use();
  for (const Option& option : command.options()) {
    if (!is_given(option)) continue;
    const std::string shown = option.name == kOverrides ? "key=value" : option.name;
    if (use && std::find(use->options.begin(), use->options.end(), option.name) == use->options.end()) {
      throw UsageError(shown + " is not used " + std::string(use->name), use->remedy);
    }
    if (use || option.misses.empty()) continue;
    throw UsageError(shown + " is used only " + std::string(option.misses),
                     option.misses.starts_with("without") ? "remove one of them" : "add it, or remove the option");
  }
}

}  // namespace

Parsed parse_command_line(int count, const char* const* arguments) {
  if (count >= 2 && std::string_view(arguments[1]) == "help") {  // as other programs have it: "fathom help train"
    const std::array<const char*, 3> asked = {arguments[0], count > 2 ? arguments[2] : "--help", "--help"};
    return parse_command_line(3, asked.data());
  }
  CLI::App app(std::string("fathom ") + kPurpose + ".", "fathom");
  std::vector<std::unique_ptr<Command>> commands = all_commands();
  bool version = false, help_config = false;
  app.add_flag("--version", version, "The version");
  app.add_flag("--help-config", help_config, "The page of config keys, in Markdown");
  app.require_subcommand(0, 1);
  app.footer(std::string("\n`fathom COMMAND --help` says more.\n") + kExitStatus);
  for (const auto& command : commands) declare(app, *command);
  refuse_unknown_command(app, count, arguments);
  try {
    app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return {nullptr, report::folded(app.help())};
  } catch (const CLI::ParseError& error) {
    throw_usage_error(app, error, count, arguments);
  }
  if (version) return {nullptr, "fathom " + app::version() + " (for LibTorch 2.11)\n"};
  if (help_config) return {nullptr, config::keys_page()};
  if (app.get_subcommands().empty()) throw UsageError("no command is given", "run fathom --help");
  const CLI::App& parsed = *app.get_subcommands().front();
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const auto& each) { return each->name == parsed.get_name(); });
  (*command)->command_line = quoted(count, arguments);
  (*command)->arguments.assign(arguments, arguments + count);
  check_options(parsed, **command);
  (*command)->complete();
  return {std::move(*command), ""};
}

}  // namespace fathom::app
