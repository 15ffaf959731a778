// A config: the text is the file; its first line is also given as an override.
#include "base/error.h"
#include "config/load.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fathom::fuzz::text_of(data, size);
  const std::string line(text.substr(0, text.find('\n')));
  try {
    fathom::config::parse_config(text, "fuzz.yaml", {}, fathom::config::Purpose::kEstimate);
  } catch (const fathom::Error&) {
  }
  try {
    fathom::config::config_of_model("model", {line});
  } catch (const fathom::Error&) {
  }
  return 0;
}
