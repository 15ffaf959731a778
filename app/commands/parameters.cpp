// `fathom estimate 7B`: what a number of parameters says by itself.
#include "app/commands.h"
#include "base/output.h"
#include "report/parameters_table.h"

namespace fathom::app {

int run_parameters(const Invocation& invocation) {
  print(invocation.json ? format_json(report::parameters_json(invocation.parameters))
                        : report::format_parameters(invocation.parameters));
  return 0;
}

}  // namespace fathom::app
