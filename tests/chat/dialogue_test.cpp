// Conversations over streams, with answers made up by the test.
#include "chat/dialogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;

const ChatTemplate kTemplate(
    "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('bad turn') }}{% endif %}"
    "{{ m.role[0] ~ ':' ~ m.content ~ ';' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
    "t");

struct Held {
  std::string output, errors;
  std::vector<std::string> prompts;
};

Held hold(const std::string& lines, const DialogueOptions& options) {
  Held held;
  std::istringstream input(lines);
  const Screen screen{[&](std::string_view text) { held.output += text; },
                      [&](std::string_view line) { held.errors += line; }};
  hold_dialogue(kTemplate, options, input, screen, [&](const std::string& prompt) {
    held.prompts.push_back(prompt);
    const std::string said = "r" + std::to_string(held.prompts.size());
    held.output += said;
    return said;
  });
  return held;
}

TEST(Dialogue, RemembersWhatWasSaid) {
  const Held held = hold("one\n\n  \ntwo\r\n", {"be brief"});
  EXPECT_THAT(held.prompts, ElementsAre("s:be brief;u:one;a:", "s:be brief;u:one;a:r1;u:two;a:"));
  EXPECT_EQ(held.output, "r1\nr2\n");
}

TEST(Dialogue, ResetsAndExits) {
  const Held held = hold("one\n/reset\ntwo\n/exit\nthree\n", {});
  EXPECT_THAT(held.prompts, ElementsAre("u:one;a:", "u:two;a:"));
}

TEST(Dialogue, TakesBackATurnThatFailed) {
  const Held held = hold("one\nbad\ntwo\n", {"", true});
  EXPECT_THAT(held.prompts, ElementsAre("u:one;a:", "u:one;a:r1;u:two;a:"));
  EXPECT_EQ(held.errors, "t:1: bad turn");
  EXPECT_EQ(held.output, "> r1\n> \n> r2\n> \n");
  EXPECT_THROW(hold("bad\n", {}), Error);
}

}  // namespace
}  // namespace fathom::chat
