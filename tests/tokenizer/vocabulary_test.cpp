// Vocabularies that are refused: tokens that were chosen to collide, and names that are there twice.
#include "tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::tokenizer {
namespace {

using ::testing::HasSubstr;

std::string failure(const Json& tokens) {
  try {
    const Vocabulary vocabulary(tokens, "vocab");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Vocabulary, RefusesTokensThatWereChosenToCollide) {
  constexpr size_t kTokens = 1500, kSlots = 4096;
  Json chosen = Json::object(), others = Json::object();
  for (int number = 0; chosen.size() < kTokens; ++number) {
    const std::string token = std::to_string(number);
    if (others.size() < kTokens) others.emplace(token, others.size());
    if (std::hash<std::string_view>{}(token) % kSlots < 64) {
      chosen.get_ref<Json::object_t&>().emplace_back(token, chosen.size());
    }
  }
  EXPECT_EQ(failure(others), "no error");
  EXPECT_THAT(failure(chosen), HasSubstr("vocab: the tokens collide"));
}

TEST(Vocabulary, RefusesWhatIsThereTwice) {
  EXPECT_THAT(failure(parse_json(R"({"a": 0, "b": 0})", "vocab")), HasSubstr("vocab: two tokens have the id 0"));
  EXPECT_THROW(parse_json(R"({"a": 0, "a": 1})", "vocab"), Error);  // before a vocabulary sees it
}

}  // namespace
}  // namespace fathom::tokenizer
