// C0 but \n and \t, DEL, and C1, which UTF-8 writes as C2 80 to C2 9F.
#include "base/terminal.h"

#include <unistd.h>

#include <cstdio>

namespace fathom {
namespace {

bool is_control(unsigned char byte) { return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F; }

void append_escaped(std::string& shown, const char* format, unsigned code) {
  char text[8];
  const int size = std::snprintf(text, sizeof text, format, code);
  shown.append(text, static_cast<size_t>(size));
}

}  // namespace

std::string shown_in_terminal(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      append_escaped(shown, "\\u%04x", next);
      ++i;
    } else if (is_control(byte)) {
      append_escaped(shown, "\\x%02x", byte);
    } else {
      shown += text[i];
    }
  }
  return shown;
}

std::string fit_for(int descriptor, std::string_view text) {
  return ::isatty(descriptor) == 1 ? shown_in_terminal(text) : std::string(text);
}

}  // namespace fathom
