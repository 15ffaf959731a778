// Lines for people on stderr, with colour and a line in place where the terminal takes them.
#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "base/terminal.h"

namespace fathom {
namespace {

std::mutex log_mutex;
bool progress_shown = false;
std::string name_of_errors;  // empty: everything is shown

void write_line(std::string_view label, const char* colour, std::string_view line) {
  const bool live = terminal_is_live();
  const std::lock_guard lock(log_mutex);
  std::string text;
  if (progress_shown) text += "\r\033[K";
  progress_shown = false;
  if (!label.empty()) text += live ? colour + std::string(label) + "\033[0m" : std::string(label);
  text += shown_in_terminal(line);
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool terminal_is_live() { return takes_colour(STDERR_FILENO); }

void log_errors_alone(std::string_view name) { name_of_errors = name; }

void log_info(std::string_view line) {
  if (name_of_errors.empty()) write_line("", "", line);
}
void log_warning(std::string_view line) {
  if (!name_of_errors.empty()) return;
  static std::set<std::string, std::less<>> told;  // files may be opened twice, before and after
  {
    const std::lock_guard lock(log_mutex);
    if (!told.emplace(line).second) return;
  }
  write_line("warning: ", "\033[33m", line);
}
void log_error(std::string_view line) {
  const std::string from = name_of_errors.empty() ? "" : name_of_errors + ": ";
  write_line("error: ", "\033[31m", from + std::string(line));
}

void log_progress(std::string_view line) {
  if (!terminal_is_live() || !name_of_errors.empty()) return;
  const std::lock_guard lock(log_mutex);
  const std::string text = "\r\033[K" + shown_in_terminal(line);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  progress_shown = true;
}

}  // namespace fathom
