// Finds the word that is wrong, what may have been meant, and where help is.
#include "app/words/usage.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/nearest_name.h"
#include "config/foreign.h"
#include "config/keys.h"

namespace fathom::app {
namespace {

std::string shortened(const std::string& word) { return word.substr(0, 64); }

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

// A command's, or the program's own where no command was named.
std::string help_of(const CLI::App& command) {
  const bool is_program = command.get_parent() == nullptr;
  return "`fathom " + (is_program ? "" : command.get_name() + " ") + "--help` says more";
}

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options(
           [](const CLI::Option* each) { return !each->get_group().empty() && !each->get_lnames().empty(); })) {
    names.push_back("--" + option->get_lnames().front());
  }
  return names;
}

// "--learning_rate 1e-4", as other tools take their keys. `after`: the word behind it, or empty.
void refuse_key_as_option(const CLI::App& command, const std::string& word, const std::string& after) {
  if (word.size() < 3 || !word.starts_with("--")) return;
  const size_t equals = word.find('=');
  std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(key.begin(), key.end(), '-', '_');
  std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (value.empty()) value = after.empty() || after.starts_with('-') ? "VALUE" : after;
  if (config::find_key(key) != nullptr) {
    throw UsageError(shortened(word) + " is a key of the config, not an option",
                     "write " + key + "=" + shortened(value));
  }
  const config::UnknownKey theirs = config::explain_unknown_key(key);
  const bool takes_keys = command.get_option_no_throw("overrides") != nullptr;
  if (!theirs.is_foreign || !takes_keys) return;
  const bool is_name_alone = !theirs.meant.empty() && theirs.remedy.ends_with(theirs.meant);
  throw UsageError(shortened(word) + ": " + theirs.message,
                   is_name_alone ? "write " + std::string(theirs.meant) + "=" + shortened(value) : theirs.remedy);
}

[[noreturn]] void refuse_unknown_option(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> elsewhere;
  for (const CLI::App* other : visible_commands(app)) {
    const std::vector<std::string> names = long_options(*other);
    if (std::find(names.begin(), names.end(), option) != names.end()) elsewhere.push_back(other->get_name());
  }
  const std::string meant = did_you_mean(option, long_options(command));
  throw UsageError((command.get_parent() == nullptr ? "fathom" : command.get_name()) + " has no option " +
                       shortened(option) + (elsewhere.empty() ? "" : ", which is one of " + listed(elsewhere)),
                   (meant.empty() ? "" : meant + " ") + help_of(command));
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> words, bool in_help) {
  std::string braced;
  for (const std::string& word : words) braced += (braced.empty() ? "{" : ",") + word;
  return CLI::Validator(
      [words = std::move(words)](const std::string& given) {
        if (std::find(words.begin(), words.end(), given) != words.end()) return std::string();
        const std::string meant = did_you_mean(given, words);
        return "expected one of " + listed(words) + ", got '" + shortened(given) + "'" +
               (meant.empty() ? "" : "; " + meant);
      },
      in_help ? braced + "}" : "");
}

void refuse_unknown_command(const CLI::App& app, int count, const char* const* arguments) {
  if (count < 2 || arguments[1][0] == '-') return;
  const std::string given = arguments[1];
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == given) return;
  }
  for (const CLI::App* command : visible_commands(app)) known.push_back(command->get_name());
  const std::string meant = did_you_mean(given, known);
  throw UsageError("unknown command '" + shortened(given) + "'",
                   (meant.empty() ? "" : meant + " ") + "commands are " + listed(known));
}

void throw_usage_error(const CLI::App& app, const CLI::ParseError& error, int count, const char* const* arguments) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const CLI::App& command = given.empty() ? app : *given.front();
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    const std::string& word = left.front();
    if (!word.starts_with('-')) {
      throw UsageError("'" + shortened(word) + "' was not expected behind fathom " + command.get_name(),
                       help_of(command));
    }
    const char* const* const end = arguments + count;
    const char* const* const at = std::find(arguments, end, word);
    refuse_key_as_option(command, word, at == end || at + 1 == end ? "" : at[1]);
    refuse_unknown_option(app, command, word);
  }
  std::string what = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
      if (what.starts_with(option->get_name() + " ")) what += " (" + option->get_description() + ")";
    }
  }
  for (const CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
    const std::string start = "Could not convert: " + option->get_name() + " = ";
    if (!what.starts_with(start)) continue;
    const std::string word = what.substr(start.size());
    char* end = nullptr;
    std::strtod(word.c_str(), &end);
    what = option->get_name() + ": expected " + (*end == '\0' ? "a whole number within its range" : "a number") +
           ", got '" + shortened(word) + "'";
    break;
  }
  throw UsageError(what, what.ends_with('?') ? "" : help_of(command));
}

}  // namespace fathom::app
