// JSON: Python's constants, positions of errors, refusal of hostile texts, and the format that transformers writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"

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

// A random value of at most `depth` levels.
Json random_value(std::mt19937& random, int depth) {
  const auto below = [&](int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random); };
  switch (below(depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return below(2) == 0;
    case 2:
      return static_cast<int64_t>(random()) * (below(2) == 0 ? -1 : 1);
    case 3:
      return std::ldexp(static_cast<double>(random()), below(200) - 100);
    case 4:
      return below(2) == 0 ? INFINITY : -INFINITY;
    case 5:
      return std::string("NaN \"\\\n\t é 日本 Infinity").substr(static_cast<size_t>(below(4)) * 4, 8);
    case 6: {
      Json array = Json::array();
      for (int i = below(5); i > 0; --i) array.push_back(random_value(random, depth - 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (int i = below(25); i > 0; --i) object["k" + std::to_string(i)] = random_value(random, depth - 1);
      return object;
    }
  }
}

// As Python writes it: json.dumps has words for what JSON has none.
std::string as_python(const Json& value) {
  if (value.is_number_float() && std::isinf(value.get<double>()))
    return value.get<double>() > 0 ? "Infinity" : "-Infinity";
  if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::ignore);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "" : ", ") + (value.is_object() ? Json(key).dump() + ": " : "") + as_python(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

TEST(Json, WhatPythonWritesReadsBackToTheSameValue) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const std::string text = as_python(random_value(random, 4));
    ASSERT_EQ(as_python(parse_json(text, "t")), text);
  }
}

TEST(Json, MutatedTextsAreReadOrRefusedAtAPlaceInside) {
  std::mt19937 random(11);
  const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
  constexpr std::string_view kPieces[] = {"\"",      "{",   "}",         "[",   "]",     ":", ",",  "\\",  "\\u",
                                          "\\ud800", "NaN", "-Infinity", "Inf", "1e999", "-", "\n", "\xff"};
  for (int round = 0; round < 20000; ++round) {
    std::string text = as_python(random_value(random, 2));
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size() + 1);
      if (below(2) == 0)
        text.insert(at, kPieces[below(std::size(kPieces))]);
      else
        text.erase(at, below(4));
    }
    const std::string error = error_of(text);
    if (error == "no error") continue;
    int line = 0, column = 0;
    ASSERT_EQ(std::sscanf(error.c_str(), "f.json:%d:%d: ", &line, &column), 2) << error;
    ASSERT_GE(column, 1);
    ASSERT_LE(static_cast<size_t>(line - 1 + column), text.size() + 2) << error << "\n" << text;
  }
}

TEST(Json, BoundsTheValuesThatAShortTextMakes) {
  EXPECT_EQ(parse_json("[1,[2],{}]", "t", 5).size(), 3U);
  EXPECT_THROW(parse_json("[1,[2],{}]", "t", 4), Error);
  std::string text = "[";
  for (size_t i = 0; i < kMostJsonValues; ++i) text += "[],";
  EXPECT_THROW(parse_json(text + "0]", "t"), Error);
}

TEST(Json, BoundsTextsListsAndObjectsApartFromNumbers) {
  const size_t most = kMostJsonValues + 100;
  std::string numbers = "[", others = "[";
  for (size_t i = 0; i <= kMostJsonValues; ++i) {
    numbers += "0,";
    others += i % 3 == 0 ? "[]," : i % 3 == 1 ? "{}," : "\"\",";
  }
  EXPECT_EQ(parse_json(numbers + "0]", "t", most).size(), kMostJsonValues + 2);
  EXPECT_THROW(parse_json(others + "0]", "t", most), Error);
}

TEST(Json, TakesCountsThatAreOnes) {
  const Json json = parse_json(R"({"a": 7, "b": -1, "c": 1.0, "d": 18446744073709551615, "e": "7", "f": null})", "t");
  EXPECT_EQ(count_at(json, "a"), 7);
  EXPECT_EQ(unsigned_at(json, "d", UINT64_MAX), UINT64_MAX);
  EXPECT_THROW(unsigned_at(json, "a", 6), Error);
  for (const char* key : {"b", "c", "d", "e", "f", "none"}) EXPECT_THROW(count_at(json, key), Error) << key;
  EXPECT_THROW(count_at(Json::array({7}), "a"), Error) << "no object";
  EXPECT_THROW(count_at(Json(), "a"), Error);
}

TEST(Json, TellsWhyAValueDoesNotFitWithoutTheLibrarysName) {
  try {
    Json("text").get<int>();
    FAIL();
  } catch (const nlohmann::json::exception& error) {
    EXPECT_EQ(reason_of(error), "type must be number, but is string");
  }
}

}  // namespace
}  // namespace fathom
