// `fathom completion bash|zsh|fish|man`: the command line for shells, and for those who read.
#include <memory>
#include <string>

#include "app/words/manual.h"
#include "base/output.h"

namespace fathom::app {
namespace {

class Completion final : public Command {
 public:
  Completion() : Command("completion", "What a shell completes of this command line, or the page of man") {}
  std::vector<Option> options() override {
    return {Option("FOR", for_, "", "A shell, or man").require().one_of({"bash", "zsh", "fish", "man"})};
  }
  int run() const override;

 private:
  std::string for_;
};

int Completion::run() const {
  const Commands commands = all_commands();
  print(for_ == "bash"   ? bash_completion(commands)
        : for_ == "zsh"  ? zsh_completion(commands)
        : for_ == "fish" ? fish_completion(commands)
                         : manual_page(commands));
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_completion() { return std::make_unique<Completion>(); }

}  // namespace fathom::app
