// What is wrong with a config: collected from the whole of it, told in one error.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::config {

// Where something stands. Line and column count from 1; line 0: nowhere in the file.
struct Position {
  int line = 0;
  int column = 0;
  bool on_command_line = false;
};

// Why a value was not taken: "expected `expected`, got `got`; `remedy`".
struct Mismatch {
  std::string expected;
  std::string got;
  std::string remedy;
};

class Problems {
 public:
  // file: how messages call the config; empty when there is none.
  explicit Problems(std::string file) : file_(std::move(file)) {}
  // key may be empty: the problem is then the document's.
  void add(const Position& at, std::string_view key, const std::string& message, const std::string& remedy = "");
  void add(const Position& at, std::string_view key, const Mismatch& mismatch);
  // The key is part of a problem that is told under another name.
  void involve(std::string_view key) { keys_.emplace(key); }
  bool concern(std::string_view key) const { return keys_.count(std::string(key)) > 0; }
  bool empty() const { return problems_.empty(); }
  // Throws UsageError with one line per problem, in the order of the file, the command line last; returns if there is
  // none.
  void throw_if_any() const;

 private:
  struct Problem {
    Position at;
    std::string text;
  };
  std::string file_;
  std::vector<Problem> problems_;
  std::set<std::string> keys_;
};

}  // namespace fathom::config
