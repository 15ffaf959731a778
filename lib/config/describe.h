// The table of keys for people: docs/config.md and the list under --help.
#pragma once

#include <string>

namespace fathom::config {

// The whole of docs/config.md.
std::string keys_page();
// One line per key, in groups: name, default, meaning.
std::string keys_help();

}  // namespace fathom::config
