// What a data file is where it is not JSON lines, told with the command that makes such a file of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fathom::data {

// Throws Error for a file that is compressed, a table, a text in another encoding, one JSON array, plain text: whatever
// its first lines show not to be one JSON object on each line.
void refuse_other_files(const std::filesystem::path& file, std::string_view first_lines);

// Throws UsageError for what names no file of this machine: a URL, a data set on a hub, a variable of the shell,
// several paths in one. key: what errors call it ("train_file").
void refuse_other_names(const std::string& path, const std::string& key);

}  // namespace fathom::data
