// libedit by dlopen, so that a machine without it chats too.
#include "app/commands/line_editor.h"

#include <dlfcn.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>

#include "base/output.h"

namespace fathom::app {

LineEditor::LineEditor(std::string prompt) : prompt_(std::move(prompt)), interactive_(::isatty(STDIN_FILENO) == 1) {
  if (!interactive_ || ::isatty(STDOUT_FILENO) != 1) return;
  void* library = ::dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  // The interface of readline, which libedit has too.
  const auto read_line = reinterpret_cast<ReadLine*>(::dlsym(library, "readline"));
  const auto add_history = reinterpret_cast<AddHistory*>(::dlsym(library, "add_history"));
  if (read_line == nullptr || add_history == nullptr) return;
  read_line_ = read_line;
  add_history_ = add_history;
  // It moves by characters of the locale; texts are UTF-8 here whatever that is.
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::optional<std::string> LineEditor::read() {
  std::string line;
  if (read_line_ != nullptr) {
    const std::unique_ptr<char, decltype(&std::free)> text(read_line_(prompt_.c_str()), &std::free);
    if (text == nullptr) {
      print("\n");
      return std::nullopt;
    }
    line = text.get();
    if (!line.empty()) add_history_(line.c_str());
    return line;
  }
  if (interactive_) print(prompt_);
  if (std::getline(std::cin, line)) return line;
  if (interactive_) print("\n");
  return std::nullopt;
}

}  // namespace fathom::app
