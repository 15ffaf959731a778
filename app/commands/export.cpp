// `fathom export`: a run, a checkpoint or an adapter as a folder for transformers or PEFT.
#include "checkpoint/export.h"

#include <cstdio>

#include "app/commands.h"

namespace fathom::app {

int run_export(const Invocation& invocation) {
  checkpoint::ExportRequest request;
  request.source = invocation.subject;
  request.out = invocation.out;
  request.merge = invocation.merge;
  request.base = invocation.base;
  const std::string what = checkpoint::export_model(request);
  std::printf("%s: %s\n", invocation.out.c_str(), what.c_str());
  return 0;
}

}  // namespace fathom::app
