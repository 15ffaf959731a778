// The table. A command on LibTorch is declared by the header beside its file; one without is made by its one file.
#include "app/commands/advise.h"
#include "app/commands/answer_plan.h"
#include "app/commands/calibrate.h"
#include "app/commands/estimate.h"
#include "app/commands/eval.h"
#include "app/commands/export.h"
#include "app/commands/generate.h"
#include "app/commands/logits.h"
#include "app/commands/quantize.h"
#include "app/commands/train.h"

namespace fathom::app {

std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_example();
std::unique_ptr<Command> make_formats();
std::unique_ptr<Command> make_inspect();
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_phantom();
std::unique_ptr<Command> make_preview();
std::unique_ptr<Command> make_report();

std::vector<std::unique_ptr<Command>> all_commands() {
  std::unique_ptr<Command> all[] = {std::make_unique<Train>(),
                                    std::make_unique<Eval>(),
                                    make_preview(),
                                    std::make_unique<Estimate>(),
                                    std::make_unique<Advise>(),
                                    make_phantom(),
                                    std::make_unique<AnswerPlan>(),
                                    std::make_unique<Generate>(),
                                    std::make_unique<Logits>(),
                                    std::make_unique<Export>(),
                                    std::make_unique<Quantize>(),
                                    make_inspect(),
                                    make_report(),
                                    make_list(),
                                    make_example(),
                                    make_formats(),
                                    make_doctor(),
                                    make_completion(),
                                    std::make_unique<AnswerOverhead>(),
                                    std::make_unique<AnswerOperators>()};
  return {std::make_move_iterator(std::begin(all)), std::make_move_iterator(std::end(all))};
}

}  // namespace fathom::app
