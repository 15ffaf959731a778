// A failure of other processes, not of this one.
#pragma once

#include "base/error.h"

namespace fathom {

// Another rank of the run has failed, is gone, or has not come within the timeout. It is named, with what it was doing.
class LostOthers : public Error {
 public:
  using Error::Error;
};

}  // namespace fathom
