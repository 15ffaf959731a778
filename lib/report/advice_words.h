// What advice says in sentences: about the question, the answer, and what speaks against it.
#pragma once

#include <string>
#include <vector>

#include "report/advice_table.h"

namespace fathom::report {

std::string joined(const std::vector<std::string>& words, const char* between);
// Bytes by dry run, else by formula.
std::string need_of(const plan::Candidate& candidate);

// The hardware, the bound and the run as it is.
std::string describe_subject(const AdviceSubject& subject);
// What a run near the limit lives on; empty for others.
std::string describe_limit(const AdviceSubject& subject, const std::optional<plan::Candidate>& answer);
// What the answer costs besides time: of its updates, of the host's memory, that no GPU has run it, that it is near the
// limit. Lines; empty for none.
std::string describe_concessions(const AdviceSubject& subject, const plan::Advice& advice);
// To paste behind a command.
std::string settings_lines(const AdviceSubject& subject, const config::RunConfig& run);
// The answer with all that must be known of it. of: " with method: full".
std::string describe_best(const AdviceSubject& subject, const plan::Advice& advice, const std::string& of);

}  // namespace fathom::report
