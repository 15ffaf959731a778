// What the operating system refuses, told with its reason and what can be done about that. No torch header.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace fathom {

// What to do about an errno; empty where nobody knows.
std::string remedy_for(int code);
// "what: the system's reason; remedy".
Error system_error(const std::string& what, int code);
// What it says; of a filesystem_error "path: the system's reason", where the library says "filesystem error: status:
// the reason [path]".
std::string message_of(const std::exception& error);

// Where this process may not have all the address space that the machine has (ulimit -v): so much of it, and that it
// takes more than the memory that is planned. Empty where there is no such limit.
std::string describe_address_space();

}  // namespace fathom
