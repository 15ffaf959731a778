// One function per subcommand, each in app/commands/<command>.cpp. Each returns the exit status and throws
// fathom::Error.
#pragma once

#include "app/invocation.h"

namespace fathom::app {

// Without LibTorch, in the program itself.
int run_inspect(const Invocation& invocation);
int run_doctor(const Invocation& invocation);
int run_report(const Invocation& invocation);
int run_preview(const Invocation& invocation);
int run_formats(const Invocation& invocation);
int run_list(const Invocation& invocation);
int run_parameters(const Invocation& invocation);  // of `estimate 7B`

// In the engine.
int run_train(const Invocation& invocation);
int run_eval(const Invocation& invocation);
int run_generate(const Invocation& invocation);
int run_logits(const Invocation& invocation);
int run_export(const Invocation& invocation);
int run_quantize(const Invocation& invocation);
int run_estimate(const Invocation& invocation);
int run_advise(const Invocation& invocation);
int run_answer_plan(const Invocation& invocation);
int run_calibrate(const Invocation& invocation);        // of `doctor --calibrate`
int run_answer_overhead(const Invocation& invocation);  // the child of it that measures one combination

}  // namespace fathom::app
