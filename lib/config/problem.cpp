// One line per problem: file:line:column: key: what; remedy.
#include "config/problem.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "config/text.h"

namespace fathom::config {
namespace {

constexpr size_t kMostShown = 50;

}  // namespace

void Problems::add(const Position& at, std::string_view key, const std::string& message, const std::string& remedy) {
  std::string text = at.on_command_line ? "command line" : file_;
  if (at.line > 0 && !at.on_command_line) text += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  if (!text.empty()) text += ": ";
  if (!key.empty()) text += printable(key) + ": ";
  text += message;
  if (!remedy.empty()) text += "; " + remedy;
  problems_.push_back({at, text});
  keys_.emplace(key);
}

void Problems::add(const Position& at, std::string_view key, const Mismatch& mismatch) {
  add(at, key, "expected " + mismatch.expected + ", got " + mismatch.got, mismatch.remedy);
}

void Problems::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  const auto place = [](const Problem& problem) {
    return std::tuple(problem.at.on_command_line, problem.at.line, problem.at.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMostShown); ++i) text += (i > 0 ? "\n" : "") + sorted[i].text;
  if (sorted.size() > kMostShown) text += "\nand " + std::to_string(sorted.size() - kMostShown) + " more";
  throw UsageError(text);
}

}  // namespace fathom::config
