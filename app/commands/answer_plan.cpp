// `fathom answer-plan`: the child that plays a plan on the phantom GPU of its process; a JSON question on stdin, the
// answer on stdout.
#include <iostream>
#include <iterator>

#include "app/commands.h"
#include "app/session.h"
#include "plan/make_plan.h"

namespace fathom::app {

int run_answer_plan(const Invocation& invocation) {
  const Session session = open_session(invocation);
  const std::string question{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  std::cout << plan::answer_dry_run(parse_json(question, "stdin"), session.placement).dump() << std::endl;
  return 0;
}

}  // namespace fathom::app
