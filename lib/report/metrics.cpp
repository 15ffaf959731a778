// Writes metrics.jsonl with one write per line, so that a killed run leaves whole lines or a tail that a resume cuts
// off.
#include "report/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/system_error.h"

namespace fathom::report {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw system_error(path.string() + ": " + what, errno);
}

// Checks what the checkpoint left and cuts the file there.
void cut(int file, const std::filesystem::path& path, int64_t keep_bytes) {
  const auto refuse = [&](const std::string& what) {
    throw Error(path.string() + ": " + what + ", but the checkpoint was saved when it had " +
                    std::to_string(keep_bytes) + " bytes of whole lines",
                "put the file of that run back, or start a new run in another output_dir");
  };
  struct stat status {};
  if (::fstat(file, &status) != 0) fail(path, "cannot be examined");
  if (status.st_size < keep_bytes) refuse("has only " + std::to_string(status.st_size) + " bytes");
  char last = '\n';
  if (keep_bytes > 0 && ::pread(file, &last, 1, keep_bytes - 1) != 1) fail(path, "cannot be read");
  if (last != '\n') refuse("was changed");
  if (::ftruncate(file, keep_bytes) != 0) fail(path, "cannot be cut to its length at the checkpoint");
}

}  // namespace

std::string describe(const EvaluationMetrics& metrics) {
  std::string text =
      "loss " + format_decimal(metrics.eval_loss, 4) + " over " + format_count(metrics.eval_tokens) + " tokens";
  if (!metrics.eval_exact_match || !metrics.eval_rouge_l) return text;
  return text + "; " + format_decimal(100 * *metrics.eval_exact_match, 1) + " % of the answers exact, ROUGE-L " +
         format_decimal(*metrics.eval_rouge_l, 4);
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t keep_bytes)
    : path_(path), file_(open_to_write(path, O_RDWR | O_APPEND)), bytes_(keep_bytes) {
  cut(file_.get(), path_, keep_bytes);
}

void MetricsFile::append(const StepMetrics& metrics) {
  Json line = {{"step", metrics.step},
               {"epoch", metrics.epoch},
               {"loss", metrics.loss},
               {"learning_rate", metrics.learning_rate},
               {"grad_norm", metrics.grad_norm},
               {"clipped_share", metrics.clipped_share},
               {"tokens", metrics.tokens},
               {"tokens_per_second", metrics.tokens_per_second},
               {"interval_seconds", metrics.interval_seconds},
               {"step_seconds", metrics.step_seconds},
               {"live_bytes", metrics.live_bytes},
               {"peak_bytes", metrics.peak_bytes}};
  if (metrics.loss_scale) {
    line["loss_scale"] = *metrics.loss_scale;
    line["skipped_steps"] = metrics.skipped_steps;
  }
  if (metrics.router_loss) line["router_loss"] = *metrics.router_loss;
  append_line(line.dump());
}

void MetricsFile::append(const EvaluationMetrics& metrics) {
  Json line = {{"step", metrics.step},
               {"epoch", metrics.epoch},
               {"eval_loss", metrics.eval_loss},
               {"eval_tokens", metrics.eval_tokens},
               {"eval_seconds", metrics.eval_seconds}};
  if (metrics.eval_exact_match) line["eval_exact_match"] = *metrics.eval_exact_match;
  if (metrics.eval_rouge_l) line["eval_rougeL"] = *metrics.eval_rouge_l;
  append_line(line.dump());
}

void MetricsFile::sync() {
  if (::fsync(file_.get()) != 0) fail(path_, "cannot be put on the disk");
}

void MetricsFile::append_line(const std::string& line) {
  const std::string content = line + "\n";
  if (!write_whole(file_, content.data(), content.size())) fail(path_, "cannot be written");
  bytes_ += static_cast<int64_t>(content.size());
}

}  // namespace fathom::report
