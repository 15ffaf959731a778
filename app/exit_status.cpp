// Failures as lines on stderr.
#include "app/exit_status.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/system_error.h"

namespace fathom::app {
namespace {

// Of exceptions that libraries throw: what the system refused, in our words. Empty: it is none of these.
std::string describe_system_failure(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    const std::string space = describe_address_space();
    return "out of memory; " + (space.empty() ? "lower per_device_train_batch_size or max_length, or set "
                                                "gradient_checkpointing: true"
                                              : space);
  }
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused == nullptr) return "";
  const int code = refused->code().value();
  const bool is_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  const std::string what = (!is_file && code == EAGAIN ? "a thread could not be started: " : "") + message_of(error);
  const std::string remedy =
      refused->code().category() == std::generic_category() || refused->code().category() == std::system_category()
          ? remedy_for(code)
          : "";
  return remedy.empty() ? what : what + "; " + remedy;
}

// Exceptions that no handler can reach: from where LibTorch is being loaded, or from a thread that could not be made.
[[noreturn]] void end_by_exception() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    if (!describe_system_failure(error).empty()) {
      report_failure(error);
      std::_Exit(kFailure);
    }
  } catch (...) {  // a defect of the program, as all that follows
  }
  std::abort();
}

}  // namespace

void prepare_process() {
  // What is opened later must not take the place of a standard stream that was closed. Reading and writing them still
  // fails, as it should.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit then fails with its reason
  std::set_terminate(end_by_exception);
}

int report_failure(const std::exception& error) {
  const std::string refused = describe_system_failure(error);
  if (!refused.empty()) {
    log_error(refused);
    return status_of(error);
  }
  // Tables follow an empty line, and stay as they are.
  const std::string message = message_of(error);
  const size_t tables = message.find("\n\n");
  std::istringstream lines(message.substr(0, tables));
  for (std::string line; std::getline(lines, line);) log_error(line);
  if (tables != std::string::npos) log_info(message.substr(tables + 1));
  return status_of(error);
}

int status_of(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? kUsage : kFailure;
}

}  // namespace fathom::app
