// Failures as lines on stderr.
#include "app/exit_status.h"

#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace fathom::app {

int report_failure(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    log_error("out of memory; lower per_device_train_batch_size or max_length, or set gradient_checkpointing: true");
    return kFailure;
  }
  // Tables follow an empty line, and stay as they are.
  const std::string_view message = error.what();
  const size_t tables = message.find("\n\n");
  std::istringstream lines{std::string(message.substr(0, tables))};
  for (std::string line; std::getline(lines, line);) log_error(line);
  if (tables != std::string_view::npos) log_info(message.substr(tables + 1));
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kUsage : kFailure;
}

}  // namespace fathom::app
