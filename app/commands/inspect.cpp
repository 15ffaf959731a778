// `fathom inspect PATH`: what is inside, as a table or as JSON.
#include <algorithm>
#include <memory>

#include "app/words/contents.h"
#include "app/words/shared_options.h"
#include "base/bytes.h"
#include "base/json_value.h"
#include "base/output.h"
#include "report/table.h"

namespace fathom::app {
namespace {

class Inspect final : public Command {
 public:
  Inspect() : Command("inspect", "What is inside a model folder, a safetensors file or a checkpoint") {}
  std::vector<Option> options() override {
    return {Option("PATH", subject_, "", "A folder or a file").require(), json_option(json_)};
  }
  int run() const override;

 private:
  std::filesystem::path subject_;
  bool json_ = false;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string as_text(const Contents& contents) {
  size_t width = 4;
  for (const auto& [name, text] : contents.facts) width = std::max(width, name.size());
  const auto line = [&](const std::string& name, const std::string& text) {
    return name + std::string(width + 2 - name.size(), ' ') + text + "\n";
  };
  std::string text = line("kind", contents.kind);
  for (const auto& [name, value] : contents.facts) text += line(name, value);
  if (contents.tensors.empty()) return report::folded(text);

  report::Table table({{.title = "tensors", .align = report::Align::kLeft, .folds = true},
                       {"type", report::Align::kLeft},
                       {"shape", report::Align::kLeft},
                       {"count"},
                       {"elements"},
                       {"bytes"}});
  TensorGroup all;
  for (const TensorGroup& group : group_tensors(contents.tensors)) {
    table.add_row({group.name, std::string(safetensors_name(group.dtype)), shape_text(group.shape),
                   format_count(group.count), format_count(group.elements), format_count(group.bytes)});
    all.count += group.count;
    all.elements += group.elements;
    all.bytes += group.bytes;
  }
  table.add_rule();
  table.add_row({"all", "", "", format_count(all.count), format_count(all.elements), format_count(all.bytes)});
  return report::folded(text) + "\n" + table.format();
}

std::string as_json(const Contents& contents) {
  Json json = {{"kind", contents.kind}};
  json.update(contents.details);
  json["tensors"] = Json::array();
  for (const weights::TensorInfo& tensor : contents.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", safetensors_name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"bytes", tensor.bytes}});
  }
  return format_json(json);
}

int Inspect::run() const {
  const Contents contents = read_contents(subject_);
  print(json_ ? as_json(contents) : as_text(contents));
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace fathom::app
