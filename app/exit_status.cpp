// Failures as lines on stderr.
#include "app/exit_status.h"

#include <new>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace fathom::app {

int report_failure(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    log_error("out of memory; lower per_device_train_batch_size or max_length, or set gradient_checkpointing: true");
    return kFailure;
  }
  std::istringstream lines(error.what());
  for (std::string line; std::getline(lines, line);) log_error(line);
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kUsage : kFailure;
}

}  // namespace fathom::app
