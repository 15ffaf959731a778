// What the operating system refuses, told with its reason and what can be done about that.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "base/error.h"

namespace fathom {

// What to do about an errno; empty where nobody knows.
std::string remedy_for(int code);
// "what: the system's reason; remedy".
Error system_error(const std::string& what, int code);
// What it says; of a filesystem_error "path: the system's reason", where the library says "filesystem error: status:
// the reason [path]", and of LibTorch's errors without the backtrace behind it.
std::string message_of(const std::exception& error);

// Of a process that trains, beside the tensors: LibTorch's libraries take 0.5 GiB of it, the pool of a CPU's tensors
// reserves 1 GiB at a time, and each thread 64 MiB.
constexpr int64_t kAddressSpaceBesideTensors = int64_t{5} << 29;
// How much this process may have, where that is limited (ulimit -v).
std::optional<int64_t> address_space_bytes();
// That limit, what it must hold beside the memory that is planned, and the remedy; empty where there is none.
std::string describe_address_space();

}  // namespace fathom
