// Joins what went wrong and what to do about it into one message.
#include "base/error.h"

namespace fathom {

Error::Error(const std::string& message, const std::string& remedy)
    : std::runtime_error(remedy.empty() ? message : message + "; " + remedy) {}

}  // namespace fathom
