// `fathom export` on the command line.
#pragma once

#include "app/invocation.h"
#include "gguf/file_type.h"

namespace fathom::app {

class Export final : public Invocation {
 public:
  Export() : Invocation("export", "A run as a folder for transformers or PEFT, or as a file for llama.cpp") {}
  std::vector<Option> options() override {
    return {Option("RUN|CHECKPOINT", subject, "", "A run's output_dir, a checkpoint in it, or an adapter's folder")
                .require(),
            Option("--out", out, "PATH", "The folder to make; of GGUF the file").require(),
            Option("--format", format, "F", "A folder in safetensors, or one GGUF file, which llama.cpp reads")
                .one_of({"safetensors", "gguf"}),
            Option("--outtype", type, "T", "Of GGUF's matrices, as llama.cpp's converter has it: auto is bf16 or f16")
                .one_of(gguf_types())
                .used_only(format == "gguf", "with --format gguf"),
            {"--merge", merge, "", "The adapter added to its base: a whole model, in the base's dtype"},
            {"--base", base, "DIR", "The base model, if it is not where the adapter says"}};
  }

  std::filesystem::path subject, out;
  std::string format = "safetensors";
  std::string type = "auto";   // of a GGUF file
  bool merge = false;          // the adapter into its base
  std::filesystem::path base;  // in place of the one that the adapter names; empty: that one

 private:
  static std::vector<std::string> gguf_types() {
    std::vector<std::string> names = {"auto"};
    for (const gguf::FileType& each : gguf::file_types()) names.emplace_back(each.name);
    return names;
  }
};

}  // namespace fathom::app
