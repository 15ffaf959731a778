// `fathom export`: a run, a checkpoint or an adapter as a folder for transformers or PEFT, or as a GGUF file.
#include "app/commands/export.h"

#include "app/engine.h"
#include "base/output.h"
#include "checkpoint/export.h"

namespace fathom::app {
namespace {

int run_export(const Export& invocation) {
  checkpoint::ExportRequest request;
  request.source = invocation.subject;
  request.out = invocation.out;
  request.merge = invocation.merge;
  request.base = invocation.base;
  request.gguf = invocation.format == "gguf";
  request.gguf_type = invocation.type;
  const std::string what = checkpoint::export_model(request);
  print(invocation.out.string() + ": " + what + "\n");
  return 0;
}

const InEngine<run_export> kExport;

}  // namespace
}  // namespace fathom::app
