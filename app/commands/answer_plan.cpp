// `fathom answer-plan`: the child that plays plans on the phantom GPU of its process. A line of stdin is a question, a
// line of stdout its answer, until stdin ends.
#include "app/commands/answer_plan.h"

#include <iostream>
#include <string>

#include "app/engine.h"
#include "app/run/session.h"
#include "base/json_value.h"
#include "base/output.h"
#include "play/answer.h"

namespace fathom::app {
namespace {

int run_answer_plan(const AnswerPlan& invocation) {
  play::PhantomGpuPlayer player(open_session(invocation).placement);
  for (std::string line; player.can_go_on() && std::getline(std::cin, line);) {
    print(player.answer(parse_json(line, "stdin", SIZE_MAX)).dump() + "\n");
  }
  return 0;
}

const InEngine<run_answer_plan> kAnswerPlan;

}  // namespace
}  // namespace fathom::app
