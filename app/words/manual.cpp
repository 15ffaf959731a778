// Text in four languages, each with quotes of its own.
#include "app/words/manual.h"

#include <algorithm>
#include <string_view>

#include "config/keys.h"

namespace fathom::app {
namespace {

bool is_shown(const Command& command) { return *command.help != '\0'; }
bool takes_keys(const Option& option) { return option.name == std::string_view("overrides"); }
bool takes_value(const Option& option) { return !std::holds_alternative<bool*>(option.value); }

// Of a command: those that begin with a dash, or the words that it takes in their places.
std::vector<Option> options_of(Command& command) {
  std::vector<Option> options = command.options();
  std::erase_if(options, [](const Option& each) { return each.name[0] != '-' || *each.help == '\0'; });
  return options;
}
std::vector<Option> places_of(Command& command) {
  std::vector<Option> options = command.options();
  std::erase_if(options, [](const Option& each) { return each.name[0] == '-'; });
  return options;
}

std::string joined(const std::vector<std::string>& words, const std::string& between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// With each of these characters behind a backslash, as the language wants it.
std::string escaped(std::string_view text, std::string_view characters, std::string_view escape = "\\") {
  std::string result;
  for (const char character : text) {
    if (characters.find(character) != std::string_view::npos) result += escape;
    result += character;
  }
  return result;
}

// For a string between single quotes, of which none may hold one.
std::string without_quotes(std::string_view text) {
  std::string result(text);
  std::replace(result.begin(), result.end(), '\'', '`');
  return result;
}

std::string key_words() {
  std::vector<std::string> words;
  for (const config::Key& key : config::keys()) words.push_back(std::string(key.name) + "=");
  return joined(words);
}

}  // namespace

std::string bash_completion(const Commands& commands) {
  std::vector<std::string> names = {"--help", "--version"};
  std::string options, values;
  for (const auto& command : commands) {
    if (!is_shown(*command)) continue;
    names.emplace_back(command->name);
    std::vector<std::string> words = {"--help"};
    for (const Option& option : options_of(*command)) {
      words.emplace_back(option.name);
      if (option.words.empty()) continue;
      values +=
          std::string("    ") + command->name + "\\ " + option.name + ") words=\"" + joined(option.words) + "\" ;;\n";
    }
    std::string places;
    for (const Option& place : places_of(*command)) {
      places += takes_keys(place) ? " $keys" : place.words.empty() ? "" : " " + joined(place.words);
    }
    options += std::string("    ") + command->name + ") options=\"" + joined(words) + "\" places=\"" +
               (places.empty() ? "" : places.substr(1)) + "\" ;;\n";
  }
  return "# Completion for bash, of fathom's table of commands.\n"
         "_fathom() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= options= places=\n"
         "  local keys=\"" +
         key_words() +
         "\"\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         joined(names) +
         "\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]}\\ $before in\n" +
         values +
         "  esac\n"
         "  case ${COMP_WORDS[1]} in\n" +
         options +
         "  esac\n"
         "  if [ -z \"$words\" ]; then\n"
         "    case $current in -*) words=$options ;; *) words=$places ;; esac\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  case ${COMPREPLY[*]} in *=) compopt -o nospace ;; esac\n"
         "}\n"
         "complete -o default -o bashdefault -F _fathom fathom\n";
}

std::string zsh_completion(const Commands& commands) {
  std::string names, cases;
  for (const auto& command : commands) {
    if (!is_shown(*command)) continue;
    names += std::string("  '") + command->name + ":" + without_quotes(escaped(command->help, ":")) + "'\n";
    cases += std::string("  ") + command->name + ")\n    _arguments";
    for (const Option& option : options_of(*command)) {
      cases += std::string(" \\\n      '") + option.name + "[" + without_quotes(escaped(option.help, "[]:\\")) + "]";
      if (takes_value(option)) {
        const std::string type = *option.type == '\0' ? "value" : escaped(option.type, ":[]\\");
        cases += ":" + type + ":" + (option.words.empty() ? "_files" : "(" + joined(option.words) + ")");
      }
      cases += "'";
    }
    std::string values;
    for (const Option& place : places_of(*command)) {
      if (!place.words.empty()) values = "(" + joined(place.words) + ")";
    }
    cases += " \\\n      '*:argument:" + (values.empty() ? "_files" : values) + "' ;;\n";
  }
  return "#compdef fathom\n"
         "# Completion for zsh, of fathom's table of commands.\n"
         "local -a commands=(\n" +
         names +
         ")\n"
         "if (( CURRENT == 2 )); then\n"
         "  _describe command commands\n"
         "  return\n"
         "fi\n"
         "local name=${words[2]}\n"
         "shift words\n"
         "(( CURRENT-- ))\n"
         "case $name in\n" +
         cases + "esac\n";
}

std::string fish_completion(const Commands& commands) {
  std::string text = "# Completion for fish, of fathom's table of commands.\n";
  for (const auto& command : commands) {
    if (!is_shown(*command)) continue;
    text += std::string("complete -c fathom -f -n __fish_use_subcommand -a ") + command->name + " -d '" +
            escaped(command->help, "\\'") + "'\n";
    const std::string seen = std::string("complete -c fathom -n '__fish_seen_subcommand_from ") + command->name + "'";
    for (const Option& option : options_of(*command)) {
      text += seen + " -l " + (option.name + 2) + (takes_value(option) ? " -r" : "") +
              (option.words.empty() ? "" : " -f -a '" + joined(option.words) + "'") + " -d '" +
              escaped(option.help, "\\'") + "'\n";
    }
    for (const Option& place : places_of(*command)) {
      if (!place.words.empty()) text += seen + " -f -a '" + joined(place.words) + "'\n";
      if (takes_keys(place)) text += seen + " -a '" + key_words() + "'\n";
    }
  }
  return text;
}

std::string manual_page(const Commands& commands) {
  // A line that begins with a dot or a quote would be a request.
  const auto plain = [](std::string_view text) {
    const std::string safe = escaped(text, "\\-", "\\");
    return (!safe.empty() && (safe[0] == '.' || safe[0] == '\'') ? "\\&" : "") + safe;
  };
  std::string text = ".TH FATHOM 1 \"\" \"fathom\"\n.SH NAME\nfathom \\- " + plain(kPurpose) +
                     "\n.SH SYNOPSIS\n.B fathom\n.I COMMAND\n[\\fIOPTION\\fR ...]\n.SH COMMANDS\n";
  for (const auto& command : commands) {
    if (!is_shown(*command)) continue;
    text += std::string(".SS fathom ") + command->name;
    for (const Option& place : places_of(*command)) {
      text += std::string(" ") + (takes_keys(place) ? "[key=value ...]" : plain(place.name));
    }
    text += "\n" + plain(command->help) + ".\n";
    for (const Option& place : places_of(*command)) {
      if (!takes_keys(place)) text += ".TP\n.I " + plain(place.name) + "\n" + plain(place.help) + "\n";
    }
    for (const Option& option : options_of(*command)) {
      const std::string value = *option.type != '\0' ? option.type : joined(option.words, "|");
      text += ".TP\n.B " + plain(option.name) + (value.empty() ? "" : " \\fI" + plain(value) + "\\fR") + "\n" +
              plain(option.help) + "\n";
    }
  }
  return text + ".SH EXIT STATUS\n" + plain(kExitStatus) +
         "\n.SH SEE ALSO\n`fathom train \\-\\-help` lists the keys of a config.\n";
}

}  // namespace fathom::app
