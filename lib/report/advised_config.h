// An advised run as a config that `train` takes, with the reason of each line.
#pragma once

#include <set>
#include <string>

#include "report/advice_table.h"

namespace fathom::report {

// run: as the question's words and the advised settings make it, with paths as they were given. given: keys that the
// words set. question: the command that was asked.
std::string advised_config(const AdviceSubject& subject, const plan::Advice& advice, const config::RunConfig& run,
                           const std::set<std::string>& given, const std::string& question);

}  // namespace fathom::report
