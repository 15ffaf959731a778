// A model for use: the folder's weights, and an adapter over them where one is named.
#pragma once

#include "app/run/session.h"
#include "app/words/shared_options.h"
#include "arch/run.h"
#include "model/decoder.h"
#include "schedule/inputs.h"

namespace fathom::app {

// The folder that --adapter names, else adapter_name_or_path of the config; empty if neither does.
std::filesystem::path adapter_of(const ModelUse& invocation);
// The command's config, with the settings of its adapter if it names one.
config::RunConfig config_with_adapter(const ModelUse& invocation);
// How the command wants its model built. Throws UsageError where --activations cannot be had.
model::ModelOptions options_for_use(const ModelUse& invocation, const arch::Run& run,
                                    const train::Placement& placement);
// Fills the model from the folder, and from the adapter if one is named.
void load_weights(model::Decoder& model, const ModelUse& invocation, const weights::ModelFolder& folder);

}  // namespace fathom::app
