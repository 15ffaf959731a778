// report.html: one page that needs nothing but itself, from what a run left in its folder.
#pragma once

#include <filesystem>
#include <string>

#include "page/run_record.h"

namespace fathom::page {

// The whole document. Parts for which the record has no data are left out. Everything that comes from the record is
// escaped; throws Error where it is not what fathom writes.
std::string report_page(const RunRecord& record);

// Reads the folder and writes the page to `out`, whole or not at all.
void write_report(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace fathom::page
