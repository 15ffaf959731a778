// What decides which tokens a text or a conversation becomes, as one hash.
#pragma once

#include <filesystem>
#include <string>

namespace fathom::schedule {

// Of the tokenizer and the chat templates in a model's folder. date: of the run, which counts where a template may
// write it. The same for folders that give the same tokens; the tokens kept of data files go by it.
std::string tokens_identity(const std::filesystem::path& folder, const std::string& date);

}  // namespace fathom::schedule
