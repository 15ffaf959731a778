// The config.json of a model: its shape, the names of its parameters, the layers that adapters match.
#include "base/error.h"
#include "base/json.h"
#include "model/shape.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fathom::Json config = fathom::parse_json(fathom::fuzz::text_of(data, size), "config.json");
    const fathom::model::ModelShape shape = fathom::model::parse_model_shape(config, "config.json");
    fathom::model::adapted_modules(shape, {"all-linear"});
  } catch (const fathom::Error&) {
  }
  return 0;
}
