// stdout through one write.
#include "base/output.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/terminal.h"

namespace fathom {
namespace {

bool silent = false;

void write(std::string_view text) {
  if (silent) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void print_nothing() { silent = true; }

void print(std::string_view text) { write(shown_in_terminal(text)); }

void print_dim(std::string_view text) {
  const std::string shown = shown_in_terminal(text);
  write(output_takes_colour() ? "\033[2m" + shown + "\033[0m" : shown);
}

void print_verbatim(std::string_view text) {
  if (::isatty(STDOUT_FILENO) == 1) {
    print(text);
  } else {
    write(text);
  }
}

bool all_is_printed() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

bool output_takes_colour() { return takes_colour(STDOUT_FILENO); }

}  // namespace fathom
