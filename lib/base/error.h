// What can go wrong, told so that the reader can mend it: what, where, what was expected, what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace fathom {

// A failure that the user can understand. `what()` is the whole message, remedy included.
class Error : public std::runtime_error {
 public:
  // message: what is wrong and where. remedy: what to do about it; may be empty.
  explicit Error(const std::string& message, const std::string& remedy = "");
};

// Bad usage or a bad config: the process exits with 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace fathom
