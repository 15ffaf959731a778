// The config.json of a model: its shape, the names of its parameters, the layers that adapters match.
#include "arch/parameter_table.h"
#include "base/error.h"
#include "base/json_value.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fathom::Json config = fathom::parse_json(fathom::fuzz::text_of(data, size), "config.json");
    const fathom::arch::Architecture architecture = fathom::arch::parse_architecture(config, "config.json");
    fathom::arch::parameter_table(architecture, {.lora = fathom::arch::LoraOptions{.target_modules = {"all-linear"}}});
  } catch (const fathom::Error&) {
  }
  return 0;
}
