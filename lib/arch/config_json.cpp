// Typed reading of config.json.
#include "arch/config_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

bool says_none(const Json& value) {
  if (value.is_structured()) return value.empty();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || value == false || (value.is_number() && value == 0);
}

}  // namespace

ConfigJson::ConfigJson(const Json& config, std::string_view origin) : config_(config), origin_(origin) {
  if (!config.is_object()) throw Error(origin_ + ": expected an object");
}

void ConfigJson::refuse(const std::string& key, const std::string& why, const std::string& remedy) const {
  throw Error(origin_ + ": " + key + ": " + why, remedy);
}

const Json* ConfigJson::find(const std::string& key) const {
  const auto found = config_.find(key);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigJson::is_null(const std::string& key) const {
  const auto found = config_.find(key);
  return found != config_.end() && found->is_null();
}

const Json* ConfigJson::asked(std::string_view key) const {
  if (std::find(kKeysOfParts.begin(), kKeysOfParts.end(), key) == kKeysOfParts.end()) {
    throw std::logic_error("ConfigJson::kKeysOfParts has no " + std::string(key));
  }
  const Json* value = find(std::string(key));
  return value == nullptr || says_none(*value) ? nullptr : value;
}

std::string ConfigJson::either(const std::string& key, const std::string& other_name) const {
  const Json *value = find(key), *other = find(other_name);
  if (value != nullptr && other != nullptr && *value != *other) {
    refuse(other_name,
           other->dump().substr(0, 80) + " is not what " + key + " says, which transformers takes for the same",
           "leave one of the two out");
  }
  return other != nullptr && value == nullptr ? other_name : key;
}

std::optional<int64_t> ConfigJson::integer(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return as_integer(key, *value);
}

int64_t ConfigJson::size(const std::string& key, std::optional<int64_t> fallback) const {
  if (const Json* value = find(key)) return as_size(key, *value);
  if (!fallback) refuse(key, "is missing");
  return *fallback;
}

int64_t ConfigJson::layers(const std::string& key, std::optional<int64_t> fallback) const {
  const int64_t layers = size(key, fallback);
  if (layers > kMaxLayers) refuse(key, "expected at most " + std::to_string(kMaxLayers));
  return layers;
}

double ConfigJson::number(const std::string& key, double fallback, double least) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : as_number(key, *value, least);
}

double ConfigJson::rate(std::initializer_list<const char*> keys, double fallback) const {
  const std::string first = *keys.begin();
  const double rate = number(first, fallback, 0);
  if (rate >= 1) refuse(first, "expected less than 1");
  for (const char* key : keys) {
    if (number(key, fallback, 0) == rate) continue;
    refuse(key, "another rate than " + first + " is not supported", "write one rate for all; 0 trains without dropout");
  }
  return rate;
}

bool ConfigJson::flag(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr || says_none(*value)) return false;
  if (!value->is_boolean()) refuse(key, "expected true or false, got " + value->dump());
  return value->get<bool>();
}

std::optional<std::vector<bool>> ConfigJson::layers_of_type(std::string_view other, size_t layers) const {
  const Json* types = find(kLayerTypes);
  if (types == nullptr) return std::nullopt;
  if (!types->is_array() || types->size() != layers) {
    refuse(kLayerTypes, "expected a list of as many types as num_hidden_layers");
  }
  std::vector<bool> found;
  for (const Json& type : *types) {
    found.push_back(type == other);
    if (!found.back() && type != "full_attention") {
      refuse(kLayerTypes, type.dump().substr(0, 80) + " is not supported");
    }
  }
  return found;
}

int64_t ConfigJson::as_integer(const std::string& key, const Json& value) const {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                                               : value.is_number_integer();
  if (!fits) refuse(key, "expected a whole number, got " + value.dump());
  return value.get<int64_t>();
}

int64_t ConfigJson::as_size(const std::string& key, const Json& value) const {
  const int64_t size = as_integer(key, value);
  if (size < 1 || size > kMaxSize) {
    refuse(key, "expected 1 to " + std::to_string(kMaxSize) + ", got " + std::to_string(size));
  }
  return size;
}

double ConfigJson::as_number(const std::string& key, const Json& value, double least) const {
  if (!value.is_number()) refuse(key, "expected a number, got " + value.dump());
  const double result = value.get<double>();
  if (!std::isfinite(result) || result < least) refuse(key, "is out of range: " + value.dump());
  return result;
}

}  // namespace fathom::arch
