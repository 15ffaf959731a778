// JSON: Python's constants, positions of errors, refusal of hostile texts, and the format that transformers writes.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  try {
    parse_json(text, "f.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, KeepsValuesAndTheOrderOfKeys) {
  const Json value = parse_json(R"({"b": [1, -2, 3.5, "x", true, null, {}], "a": {"c": 18446744073709551615}})", "t");
  EXPECT_EQ(value.dump(), R"({"b":[1,-2,3.5,"x",true,null,{}],"a":{"c":18446744073709551615}})");
}

TEST(Json, ReadsWhatPythonWritesForNumbersThatAreNotFinite) {
  const Json value = parse_json(R"({"a": NaN, "b": [Infinity, -Infinity], "c": "NaN \" Infinity"})", "t");
  EXPECT_TRUE(std::isnan(value["a"].get<double>()));
  EXPECT_EQ(value["b"][0].get<double>(), INFINITY);
  EXPECT_EQ(value["b"][1].get<double>(), -INFINITY);
  EXPECT_EQ(value["c"], "NaN \" Infinity");
}

TEST(Json, ErrorsSayLineAndColumn) {
  EXPECT_THAT(error_of("{\"a\": 1,\n  \"b\": ?}"), StartsWith("f.json:2:8: not valid JSON: "));
  EXPECT_THAT(error_of("{\"a\": NaN, \"d\": -Infinity,\n  \"b\": ?}"), StartsWith("f.json:2:8: "));
  EXPECT_THAT(error_of("{\"d\": -Infinity, \"b\": ?}"), StartsWith("f.json:1:23: "));
  EXPECT_THAT(error_of("{} x"), StartsWith("f.json:1:4: "));
  EXPECT_THAT(error_of(""), StartsWith("f.json:1:1: "));
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_THAT(error_of("{\"a\": 1,\n\"a\": 2}"), StartsWith("f.json:2:3: not valid JSON: the key 'a' appears twice"));
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += "\"k" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(error_of(many + "\"last\": 0}"), "no error");
  EXPECT_THAT(error_of(many + "\"k3\": 0}"), HasSubstr("'k3' appears twice"));
  EXPECT_EQ(error_of(R"([{"a": 1}, {"a": 2}])"), "no error");
}

TEST(Json, RefusesDeepNesting) {
  EXPECT_EQ(error_of(std::string(100, '[') + std::string(100, ']')), "no error");
  EXPECT_THAT(error_of(std::string(101, '[') + std::string(101, ']')), HasSubstr("deeper than 100"));
  EXPECT_THAT(error_of(std::string(5'000'000, '[')), HasSubstr("deeper than 100"));
}

TEST(Json, RefusesInvalidUtf8AndCutTexts) {
  const std::string text = R"({"a": [1, "é", 2.5], "b": {"c": NaN}})";
  for (size_t length = 0; length < text.size(); ++length) EXPECT_NE(error_of(text.substr(0, length)), "no error");
  EXPECT_NE(error_of("\"\xff\""), "no error");
}

TEST(Json, WritesTwoSpacesAndANewlineAndReplacesInvalidUtf8) {
  EXPECT_EQ(format_json(parse_json(R"({"b":[1,1e-5],"a":5.0,"c":"é"})", "t")),
            "{\n  \"b\": [\n    1,\n    1e-05\n  ],\n  \"a\": 5.0,\n  \"c\": \"é\"\n}\n");
  EXPECT_EQ(format_json("a\xff"), "\"a\xEF\xBF\xBD\"\n");
}

}  // namespace
}  // namespace fathom
