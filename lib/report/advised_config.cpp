// YAML, group by group as config/to_yaml.h has it, but for keys that nobody set.
#include "report/advised_config.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/bytes.h"
#include "base/numbers.h"
#include "config/checks.h"
#include "config/keys.h"
#include "plan/advice/reasons.h"
#include "report/advice_words.h"
#include "report/table.h"

namespace fathom::report {
namespace {

std::string commented(const std::string& text) {
  constexpr int64_t kMark = 2;
  std::istringstream lines(folded(text, kTerminalColumns - kMark));
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' ');
    result += begin == std::string::npos ? "#\n" : "# " + line.substr(begin) + "\n";
  }
  return result;
}

std::string seconds(double count) { return format_by(count < 10 ? "%.3f s" : "%.1f s", count); }

std::string because(const plan::Reason& reason, const plan::Combination& best) {
  std::string text = reason.technique + (reason.note.empty() ? "" : ": " + reason.note) + ".";
  if (!reason.peak_without) return text;
  text += " Without, " + format_bytes(*reason.peak_without) + " live in the place of " + format_bytes(best.formula);
  if (reason.seconds_without && best.seconds) {
    text += ", " + seconds(*reason.seconds_without) + " a step in the place of " + seconds(*best.seconds);
  }
  return text + ", by formula.";
}

std::string heading(const AdviceSubject& subject, const plan::Advice& advice, const std::string& question) {
  const plan::Combination& best = *advice.best;
  std::string text = "Made by `" + question + "`.\n" + describe_subject(subject) + "\n";
  text += "This run needs " + need_of(best) + " by dry run" +
          (best.seconds ? ", and " + seconds(*best.seconds) + " are expected for a step of " +
                              format_count(best.tokens) + " tokens"
                        : std::string()) +
          ".\n";
  return commented(text + describe_concessions(subject, advice));
}

}  // namespace

std::string advised_config(const AdviceSubject& subject, const plan::Advice& advice, const config::RunConfig& run,
                           const std::set<std::string>& given, const std::string& question) {
  const plan::Combination& best = *advice.best;
  std::map<std::string, std::string> why;  // the first key of a reason tells it
  std::set<std::string> advised;
  for (const plan::Reason& reason : plan::reasons(subject.question, best)) {
    why[reason.keys.front()] = because(reason, best);
    advised.insert(reason.keys.begin(), reason.keys.end());
  }
  for (const std::string& setting : plan::settings_between(subject.question.run.config, best.run)) {
    advised.insert(setting.substr(0, setting.find('=')));
  }
  std::string text = heading(subject, advice, question);
  std::string_view group;
  for (const config::Key& key : config::keys()) {
    const std::string name(key.name), value = key.get(run);
    const bool needed = name == "train_file" || name == "output_dir";
    const bool set = given.contains(name) || advised.contains(name) || name == "model_name_or_path";
    if (!set && !needed) continue;
    if (value != "null" && !config::applies(name, run)) continue;
    if (key.group != group) text += "\n";
    group = key.group;
    if (needed && value == "null") {
      text += "# " + name + ": was not said; `train` needs it here, or behind the command as " + name + "=…\n";
      continue;
    }
    if (value == "null") continue;
    if (why.contains(name)) text += commented(why.at(name));
    text += name + ": " + value +
            (advised.contains(name) ? ""
             : given.contains(name) ? "  # as asked"
                                    : "  # chosen here") +
            "\n";
  }
  return text;
}

}  // namespace fathom::report
