// A command as the command line knows it: its name, its options, what they need of each other and what they name. No
// torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fathom::app {

// An option, or an argument, and the value that it sets. A default is shown where the value holds one.
class Option {
 public:
  using Value =
      std::variant<bool*, std::string*, std::filesystem::path*, int64_t*, uint64_t*, double*, std::optional<int>*,
                   std::optional<int64_t>*, std::optional<double>*, std::vector<std::string>*>;
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  // name: "--gpu", or an argument's in help, "CONFIG|MODEL". type: of the value, as help shows it. Without a text the
  // option is hidden, but for commands that are hidden themselves.
  template <typename T>
  Option(const char* name, T& value, const char* type = "", const char* help = "")
      : name(name), value(&value), type(type), help(help) {}

  Option& require() {
    required = true;
    return *this;
  }
  // These words alone. In help they stand in braces, unless the type names them ("none|int8").
  Option& one_of(std::vector<std::string> expected) {
    words = std::move(expected);
    return *this;
  }
  Option& not_negative() { return within(0, kUnlimited); }
  Option& within(double least, double most) {
    range = {least, most};
    return *this;
  }
  Option& excludes(const char* option) {
    excluded.push_back(option);
    return *this;
  }
  Option& needs(const char* option) {
    needed = option;
    return *this;
  }
  // holds: whether the command looks at the option beside the others, as far as they are read. used: "with --gpu NAME".
  Option& used_only(bool holds, const char* used) {
    if (!holds) misses = used;
    return *this;
  }

  const char* name;
  Value value;
  const char *type, *help;
  bool required = false;
  std::vector<std::string> words;
  std::optional<std::pair<double, double>> range;
  std::vector<const char*> excluded;
  const char* needed = nullptr;
  std::string_view misses;  // what the option would have to be used with; empty: nothing
};

// A use of a command that looks at these options and no others: an option that comes to the command is refused in it
// until it is told here, too.
struct Use {
  std::string_view name;                  // "with a number of parameters"
  std::vector<std::string_view> options;  // by their names; "overrides" are key=value
  const char* remedy;
};

class Command {
 public:
  // Without a text help does not show the command.
  explicit Command(const char* name, const char* help = "") : name(name), help(help) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  virtual std::vector<Option> options() = 0;
  // Of what was given, where that asks for a use with options of its own.
  virtual std::optional<Use> use() const { return std::nullopt; }
  // Reads what the words name, before LibTorch is loaded, so that mistakes are told at once. Throws UsageError for what
  // is wrong with them, or with the config.
  virtual void complete() {}
  // Returns the exit status; throws fathom::Error.
  virtual int run() const = 0;

  const char *name, *help;
  std::string command_line;            // as it was typed, quoted for a shell
  std::vector<std::string> arguments;  // the same, one by one, the program's name first
};

// The table of commands, in the order of `fathom --help`; no words have been read yet.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace fathom::app
