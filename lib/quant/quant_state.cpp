// The keys are those of bitsandbytes' QuantState.
#include "quant/quant_state.h"

#include <cmath>

#include "base/error.h"
#include "base/json_value.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr int64_t kBytes = 160, kBytesDoubled = 288;  // with the longest numbers there can be
constexpr size_t kLongestRead = 4096;
constexpr int64_t kLargestSize = int64_t{1} << 31;

class Reader {
 public:
  Reader(const Json& state, const std::string& where) : state_(state), where_(where) {
    if (!state.is_object()) fail("is no JSON object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(where_ + " " + what, "expected what bitsandbytes writes for NF4 in blocks of 64");
  }
  const Json& at(const char* key) const {
    if (!state_.contains(key)) fail(std::string("has no '") + key + "'");
    return state_[key];
  }
  void expect(const char* key, const Json& expected) const {
    if (at(key) != expected) {
      fail(std::string("has ") + key + " " + at(key).dump().substr(0, 80) + ", not " + expected.dump());
    }
  }
  int64_t size(const Json& value) const {
    if (!value.is_number_integer() || value < 1 || value > kLargestSize) fail("has a shape that is none");
    return value.get<int64_t>();
  }

 private:
  const Json& state_;
  const std::string& where_;
};

}  // namespace

std::string quant_state_text(const QuantState& state) {
  Json json = {{"quant_type", "nf4"},
               {"blocksize", kNf4Block},
               {"dtype", dtype_name(state.dtype)},
               {"shape", {state.rows, state.columns}}};
  if (state.offset) {
    json["nested_blocksize"] = kScaleBlock;
    json["nested_dtype"] = "float32";
    json["nested_offset"] = static_cast<double>(*state.offset);
  }
  std::string text = json.dump();
  text.resize(static_cast<size_t>(state.offset ? kBytesDoubled : kBytes), ' ');
  return text;
}

int64_t quant_state_bytes(Scheme scheme) { return has_double_scales(scheme) ? kBytesDoubled : kBytes; }

QuantState parse_quant_state(std::string_view text, const std::string& where) {
  if (text.size() > kLongestRead) throw Error(where + " is longer than 4096 bytes", "it is a short JSON text");
  const Json json = parse_json(text, where);
  const Reader reader(json, where);
  reader.expect("quant_type", "nf4");
  reader.expect("blocksize", kNf4Block);
  const Json& shape = reader.at("shape");
  if (!shape.is_array() || shape.size() != 2) reader.fail("has a shape that is none");
  QuantState state;
  state.rows = reader.size(shape[0]);
  state.columns = reader.size(shape[1]);
  if (!reader.at("dtype").is_string()) reader.fail("has a dtype that is none");
  state.dtype = dtype_from_name(reader.at("dtype").get<std::string>());
  if (!json.contains("nested_offset")) return state;
  reader.expect("nested_blocksize", kScaleBlock);
  const Json& offset = reader.at("nested_offset");
  if (!offset.is_number() || !std::isfinite(offset.get<float>())) reader.fail("has a nested_offset that is no number");
  state.offset = offset.get<float>();
  return state;
}

}  // namespace fathom::quant
