// `fathom generate --chat` on the model that comes with the project, under a template of the test's.
#include <gmock/gmock.h>

#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ChatTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "m");
  }
  Outcome chat(const std::string& lines, const std::string& options = "") {
    write("lines.txt", lines);
    const std::string command =
        std::string("\"") + FATHOM_PROGRAM + "\" generate m --chat --max-new-tokens 6 " + options;
    return run("-c '" + command + " <lines.txt'", "", "/bin/sh");
  }
  // What the model says after this text, which begins with BOS.
  std::string said_after(const std::string& text) {
    write("prompt.txt", text);
    const Outcome outcome =
        run("-c '\"" + std::string(FATHOM_PROGRAM) + "\" generate m --max-new-tokens 6 <prompt.txt'", "", "/bin/sh");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.output;
  }
};

TEST_F(ChatTest, AnswersEachLineWithAllBeforeInView) {
  write("m/chat_template.jinja",
        "{{ bos_token }}{% for m in messages %}{{ m.role[0] ~ ': ' ~ m.content ~ '. ' }}{% endfor %}a:");
  const Outcome outcome = chat("What is 2 GB?\nand half of it\n/exit\nnever\n", "--system brief");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::string first = said_after("<s>s: brief. u: What is 2 GB?. a:");
  ASSERT_EQ(outcome.output.substr(0, first.size()), first);
  const std::string answer = first.substr(0, first.size() - 1);  // without the line break
  EXPECT_EQ(outcome.output.substr(first.size()),
            said_after("<s>s: brief. u: What is 2 GB?. a: " + answer + ". u: and half of it. a:"));
}

TEST_F(ChatTest, NeedsATemplate) {
  const Outcome outcome = chat("hello\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("has no chat template"));
}

TEST_F(ChatTest, TellsWhatATemplateRefuses) {
  write("m/chat_template.jinja",
        "{{ messages[0].content }}\n{% if messages | length > 1 %}{{ raise_exception('one turn') }}{% endif %}");
  const Outcome outcome = chat("a\nb\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("chat_template.jinja:2: one turn"));
}

}  // namespace
}  // namespace fathom
