// A config.json that is not trusted: values by key, of the right kind and in range, or an Error that names file and
// key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace fathom::arch {

class ConfigJson {
 public:
  static constexpr int64_t kMaxSize = int64_t{1} << 31;  // of any one dimension
  static constexpr int64_t kMaxLayers = 10'000;          // of a stack

  // config must outlive this. Throws Error unless it is an object.
  ConfigJson(const Json& config, std::string_view origin);

  [[noreturn]] void refuse(const std::string& key, const std::string& why, const std::string& remedy = "") const;

  // Null if the key is absent or null; `is_null` tells the two apart.
  const Json* find(const std::string& key) const;
  bool is_null(const std::string& key) const;
  // Of a key that transformers' attribute_map gives another name, the name that is there. Throws where both are, and
  // differ.
  std::string either(const std::string& key, const std::string& other_name) const;

  // Absent or null: nothing.
  std::optional<int64_t> integer(const std::string& key) const;
  // 1 to kMaxSize. Throws where there is neither the key nor a fallback.
  int64_t size(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const;
  // Likewise 1 to kMaxLayers.
  int64_t layers(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const;
  // Finite and at least `least`.
  double number(const std::string& key, double fallback, double least) const;
  bool flag(const std::string& key) const;  // absent: false

  // The same of a value within another; key: how to name it.
  int64_t as_integer(const std::string& key, const Json& value) const;
  int64_t as_size(const std::string& key, const Json& value) const;
  double as_number(const std::string& key, const Json& value, double least) const;

 private:
  const Json& config_;
  std::string origin_;
};

}  // namespace fathom::arch
