// `fathom export`: a run, a checkpoint or an adapter as a folder for transformers or PEFT.
#include "checkpoint/export.h"

#include "app/commands.h"
#include "base/output.h"

namespace fathom::app {

int run_export(const Invocation& invocation) {
  checkpoint::ExportRequest request;
  request.source = invocation.subject;
  request.out = invocation.out;
  request.merge = invocation.merge;
  request.base = invocation.base;
  const std::string what = checkpoint::export_model(request);
  print(invocation.out.string() + ": " + what + "\n");
  return 0;
}

}  // namespace fathom::app
