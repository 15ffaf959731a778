// Collects what the file and the command line say, stores it key by key, then looks at it as a whole.
#include "config/load.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "config/checks.h"
#include "config/foreign.h"
#include "config/keys.h"
#include "config/problem.h"
#include "config/text.h"
#include "config/yaml.h"

namespace fathom::config {
namespace {

constexpr Position kCommandLine{0, 0, true};

void refuse_unknown_key(const Entry& entry, Problems& problems) {
  const UnknownKey unknown = explain_unknown_key(entry.key, &entry.value);
  problems.add(entry.at, entry.key, unknown.message, unknown.remedy);
  if (!unknown.meant.empty()) problems.involve(unknown.meant);
}

// Null is the same as leaving a key out, for keys that may be without a value.
std::optional<Mismatch> store(const Key& key, const Value& value, RunConfig& run) {
  if (value.kind == Value::Kind::kNull && !key.unset.empty()) return std::nullopt;
  if (auto mismatch = foreign_value(key.name, value)) return mismatch;
  auto mismatch = key.set(run, value);
  if (mismatch && value.kind == Value::Kind::kNull) mismatch->remedy = "remove the key for its default";
  return mismatch;
}

Entry split_override(const std::string& text, Problems& problems) {
  Entry entry;
  entry.at = kCommandLine;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add(kCommandLine, "",
                 {"key=value", "'" + printable(text) + "'", "an option's value stands behind its name, as --gpu H100"});
    return entry;
  }
  entry.key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  const Key* key = find_key(entry.key);
  const bool list = key != nullptr && key->is_list && value.starts_with('[');
  if (key != nullptr && (!key->is_text || list)) {
    entry.value = read_yaml_value(entry.key, value, problems);
  } else {
    const bool unset = value.empty() || value == "null";  // a folder of that name is ./null
    entry.value.kind = unset ? Value::Kind::kNull : Value::Kind::kScalar;
    entry.value.text = value;
    entry.value.at = kCommandLine;
  }
  return entry;
}

// Entries of the command line take the place of the file's of the same key.
class Assembly {
 public:
  explicit Assembly(Problems& problems) : problems_(problems) {}

  void take(const Entry& entry) {
    const Key* key = find_key(entry.key);
    if (key == nullptr) {
      refuse_unknown_key(entry, problems_);
      return;
    }
    const bool null = entry.value.kind == Value::Kind::kNull;
    if (entry.at.on_command_line) reset(*key);
    if (null && (entry.at.on_command_line || !key->unset.empty())) {
      given_.erase(std::string(key->name));
    } else {
      given_[std::string(key->name)] = entry.at;
    }
    if (null && entry.at.on_command_line) return;  // the file's value is taken away
    const auto mismatch = store(*key, entry.value, run_);
    const Position& at = entry.value.kind == Value::Kind::kNull ? entry.at : entry.value.at;
    if (mismatch) problems_.add(at, key->name, *mismatch);
  }
  std::set<std::string> given() const {
    std::set<std::string> names;
    for (const auto& [name, at] : given_) names.insert(name);
    return names;
  }
  RunConfig finish(Purpose purpose) {
    if (purpose == Purpose::kEvaluate) {
      for (const char* of_training : {"offload_weights", "offload_optimizer"}) {
        given_.erase(of_training);
        reset(*find_key(of_training));
      }
    }
    if (run_.optimizer_in_backward && !given_.contains("max_grad_norm")) run_.max_grad_norm = 0;
    check_together(run_, given_, purpose, problems_);
    problems_.throw_if_any();
    for (const Key& key : keys()) {
      if (!applies(key.name, run_)) reset(key);
    }
    return run_;
  }

 private:
  void reset(const Key& key) { key.copy(RunConfig{}, run_); }

  Problems& problems_;
  RunConfig run_;
  Positions given_;
};

RunConfig assemble(const std::vector<Entry>& entries, const std::vector<std::string>& overrides, Purpose purpose,
                   Problems& problems, std::set<std::string>* given = nullptr) {
  Assembly assembly(problems);
  for (const Entry& entry : entries) assembly.take(entry);
  std::vector<std::string> seen;
  for (const std::string& text : overrides) {
    const Entry entry = split_override(text, problems);
    if (std::find(seen.begin(), seen.end(), entry.key) != seen.end() && !entry.key.empty()) {
      problems.add(kCommandLine, entry.key, "given twice", "remove one of them");
    }
    seen.push_back(entry.key);
    if (!entry.key.empty()) assembly.take(entry);
  }
  if (given != nullptr) *given = assembly.given();
  return assembly.finish(purpose);
}

// The word after the command is key=value.
void refuse_other_subjects(const std::filesystem::path& path) {
  constexpr const char* kExpected = ": expected a YAML file of key: value lines";
  const std::string name = path.string();
  const size_t equals = name.find('=');
  std::error_code absent;
  if (equals != std::string::npos && find_key(name.substr(0, equals)) != nullptr &&
      !std::filesystem::exists(path, absent)) {
    throw UsageError(printable(name) + " stands where the config belongs" + kExpected,
                     "name that first, or the model's folder, and key=value after it");
  }
}

// Lines that begin with objects are data.
void refuse_other_kinds(const std::filesystem::path& path, std::string_view text) {
  constexpr std::string_view kExpected = "YAML, a file of key: value lines";
  try {
    refuse_other_kind(path, text, kExpected);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  const size_t end = text.find('\n'), next = text.find_first_not_of(" \t\r\n", end);
  const bool is_object =
      text.starts_with('{') && end != std::string_view::npos && text.substr(0, end).find('}') != std::string_view::npos;
  const bool has_another = next != std::string_view::npos && text[next] == '{';
  if (path.extension() == ".jsonl" || (is_object && has_another)) {
    throw UsageError(path.string() + ": holds data, JSON lines; expected " + std::string(kExpected),
                     "name the config first, and the data in it or behind it: train_file=" + path.string());
  }
}

std::string read_config_file(const std::filesystem::path& path) {
  refuse_other_subjects(path);
  std::string text;
  try {
    text = read_file(path, kLargestYaml);
  } catch (const Error& error) {
    if (path.extension() == ".jsonl") refuse_other_kinds(path, "");  // too large for a config
    throw UsageError(error.what());
  }
  refuse_other_kinds(path, text);
  return text;
}

}  // namespace

RunConfig parse_config(std::string_view yaml, const std::string& file, const std::vector<std::string>& overrides,
                       Purpose purpose, std::set<std::string>* given) {
  Problems problems(file);
  return assemble(read_yaml(yaml, problems), overrides, purpose, problems, given);
}

RunConfig load_config(const std::filesystem::path& yaml, const std::vector<std::string>& overrides, Purpose purpose,
                      std::set<std::string>* given) {
  return parse_config(read_config_file(yaml), yaml.string(), overrides, purpose, given);
}

RunConfig config_of_model(const std::string& model_name_or_path, const std::vector<std::string>& overrides,
                          Purpose purpose, std::set<std::string>* given) {
  Problems problems("");
  Entry model{"model_name_or_path", kCommandLine, {}};
  model.value.kind = Value::Kind::kScalar;
  model.value.text = model_name_or_path;
  model.value.at = kCommandLine;
  return assemble({model}, overrides, purpose, problems, given);
}

}  // namespace fathom::config
