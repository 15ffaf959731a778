// Conversations over streams, with answers made up by the test.
#include "chat/dialogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "base/error.h"

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ChatTemplate kTemplate(
    "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('bad turn') }}{% endif %}"
    "{{ m.role[0] ~ ':' ~ m.content ~ ';' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
    "t");

struct Held {
  std::string output, notes, errors;
  std::vector<std::string> prompts;
};

// most: so many bytes of a prompt fit.
Held hold(const std::string& lines, const DialogueOptions& options, size_t most = 1000) {
  Held held;
  std::istringstream input(lines);
  const Screen screen{[&](std::string_view text) { held.output += text; },
                      [&](std::string_view line) { held.notes += line; },
                      [&](std::string_view line) { held.errors += line; }};
  const ReadLine read_line = [&]() -> std::optional<std::string> {
    std::string line;
    return std::getline(input, line) ? std::optional(line) : std::nullopt;
  };
  DialogueModel model;
  model.fits = [&](const std::string& prompt) { return prompt.size() <= most; };
  model.answer = [&](const std::string& prompt) {
    if (prompt.size() > most) throw Error("too long");
    held.prompts.push_back(prompt);
    const std::string said = "r" + std::to_string(held.prompts.size());
    held.output += said;
    return said;
  };
  hold_dialogue(kTemplate, options, read_line, screen, model);
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
  EXPECT_EQ(held.notes, "(what was said is forgotten)");
}

TEST(Dialogue, TakesBackATurnThatFailed) {
  const Held held = hold("one\nbad\ntwo\n", {"", true});
  EXPECT_THAT(held.prompts, ElementsAre("u:one;a:", "u:one;a:r1;u:two;a:"));
  EXPECT_EQ(held.errors, "t:1: bad turn");
  EXPECT_THAT(held.notes, HasSubstr("/help")) << "a person is told where to begin";
  EXPECT_EQ(held.output, "r1\n\nr2\n");
  EXPECT_THROW(hold("bad\n", {}), Error);
}

TEST(Dialogue, TellsItsCommandsAndTakesNoneForATurn) {
  const Held held = hold("/help\none\n/hepl\n/etc/hosts\n", {});
  EXPECT_THAT(held.prompts, ElementsAre("u:one;a:", "u:one;a:r1;u:/etc/hosts;a:"));
  EXPECT_THAT(held.notes, HasSubstr("/reset  forgets what was said\n")) << "no error";
  EXPECT_THAT(held.errors, HasSubstr("there is no /hepl; commands are\n"));
}

TEST(Dialogue, LeavesOutTheOldestTurnsWhereTheModelIsFull) {
  const Held held = hold("one\ntwo\nthree\nfour\n", {"s"}, 26);
  EXPECT_THAT(held.prompts, ElementsAre("s:s;u:one;a:", "s:s;u:one;a:r1;u:two;a:", "s:s;u:two;a:r2;u:three;a:",
                                        "s:s;u:three;a:r3;u:four;a:"));
  EXPECT_EQ(held.errors, "");
  EXPECT_EQ(held.notes, "(the conversation is longer than the model's positions: its oldest turns are left out)");
}

TEST(Dialogue, ATurnThatIsTooLongAloneIsRefusedAndTakenBack) {
  const Held held = hold("one\n" + std::string(30, 'x') + "\ntwo\n", {"", true}, 24);
  EXPECT_THAT(held.prompts, ElementsAre("u:one;a:", "u:one;a:r1;u:two;a:"));
  EXPECT_THAT(held.errors, HasSubstr("too long"));
}

}  // namespace
}  // namespace fathom::chat
