// Models of tests/model/golden/ as llama.cpp is asked about them.
#pragma once

#include <string>

#include "base/error.h"
#include "base/json_value.h"
#include "gguf/model_keys.h"

namespace fathom::gguf {

// changes: of its config.json.
inline arch::Architecture golden(const std::string& name, const Json& changes = Json::object()) {
  Json config = read_json(FATHOM_SOURCE_DIR "/tests/model/golden/" + name + "/config.json");
  config.update(changes);
  return arch::parse_architecture(config, name);
}

// Why there is no architecture for it; empty where there is one.
inline std::string refusal(const arch::Architecture& model) {
  try {
    llama_cpp_architecture(model, "folder");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace fathom::gguf
