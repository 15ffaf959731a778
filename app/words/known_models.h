// The shapes of configs/models, found by the names that people know them by.
#pragma once

#include <optional>
#include <string>

namespace fathom::app {

// The name in configs/models of a model that is called by it, or by its name on the Hugging Face hub, with or without
// the organisation: "Llama3.1-8B", "meta-llama/Llama-3.1-8B-Instruct". Words that name what a model was tuned for say
// nothing of its shape. nullopt: none is called so.
std::optional<std::string> known_model(const std::string& name);

// The name of a folder with a config.json alone, for one whom the hub's cache lacks: the model's own name where that is
// a folder or in the cache, else the known shape's folder, which a line on stderr says. An unknown name comes back as
// it is: who opens it says where it looked. Throws UsageError as refuse_others.
std::string folder_or_known_shape(const std::string& name);

// Throws UsageError, with what plans them, for names on the hub of models that no family here computes: whoever would
// download one would be refused then.
void refuse_others(const std::string& name);

// What to say of a name that is neither: the nearest known one, and where all are listed.
std::string how_models_are_named(const std::string& name);

}  // namespace fathom::app
