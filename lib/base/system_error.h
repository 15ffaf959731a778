// What the operating system refuses, told with its reason and what can be done about that. No torch header.
#pragma once

#include <string>

#include "base/error.h"

namespace fathom {

// What to do about an errno; empty where nobody knows.
std::string remedy_for(int code);
// "what: the system's reason; remedy".
Error system_error(const std::string& what, int code);

// Where this process may not have all the address space that the machine has (ulimit -v): so much of it, and that it
// takes more than the memory that is planned. Empty where there is no such limit.
std::string describe_address_space();

}  // namespace fathom
