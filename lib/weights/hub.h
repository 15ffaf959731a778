// Models that Hugging Face's tools have downloaded before: their cache on this disk, found by name. Downloads nothing.
#pragma once

#include <filesystem>
#include <string>

namespace fathom::weights {

// The folder of a model that is named by its path or, where there is no such path, by its name on the Hugging Face hub
// ("org/name", or "name" alone): the snapshot of its branch main in the hub's cache, $HF_HUB_CACHE, else $HF_HOME/hub,
// else ~/.cache/huggingface/hub, as huggingface_hub finds it. A path that is there, and what can be no such name, is
// returned as it is. Throws Error, saying where it looked and how to get the model, for a name that is in neither
// place.
std::filesystem::path find_model(const std::filesystem::path& name_or_path);

// What finds the same model from any working folder: a folder's absolute path, a name on the hub as it is.
std::string lasting_name(const std::filesystem::path& name_or_path);

// "org/name": could be a model on the hub.
bool is_hub_name(const std::string& name);

}  // namespace fathom::weights
