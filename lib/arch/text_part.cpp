// By what stands in front of a name. The spellings are those of the hub and of what transformers 4 and 5 saved.
#include "arch/text_part.h"

#include <array>
#include <span>

#include "weights/other_parts.h"

namespace fathom::arch {
namespace {

constexpr std::string_view kModel = "model.", kHead = "lm_head.";
constexpr const char* kModelInWhole = "model.language_model.";
// Longer ones before those that they begin with.
constexpr std::array<std::string_view, 5> kModels{"model.language_model.model.", kModelInWhole, "language_model.model.",
                                                  "language_model.", kModel};
constexpr std::array<std::string_view, 3> kHeads{"model.language_model.lm_head.", "language_model.lm_head.", kHead};

std::string replaced(const std::string& name, std::string_view front, std::string_view by) {
  return std::string(by) + name.substr(front.size());
}

std::string with_fronts(const std::string& name, std::string_view model, std::string_view head) {
  if (name.starts_with(kModel)) return replaced(name, kModel, model);
  if (name.starts_with(kHead)) return replaced(name, kHead, head);
  return name == "lm_head" ? std::string(head.substr(0, head.size() - 1)) : name;
}

}  // namespace

std::string stored_name(const std::optional<TextPart>& part, const std::string& name) {
  return part ? with_fronts(name, part->model, part->head) : name;
}

std::string name_in_whole(const std::optional<TextPart>& part, const std::string& name) {
  return part ? with_fronts(name, kModelInWhole, kHead) : name;
}

std::string pattern_of_other_parts() {
  std::string names;
  for (const std::string_view part : weights::other_parts()) names.append(names.empty() ? "" : "|").append(part);
  return "(model\\.)?(" + names + ")(\\..*)?";
}

std::string name_in_decoder(const std::string& name) {
  for (const std::string_view head : kHeads) {
    if (name.starts_with(head)) return replaced(name, head, kHead);
  }
  for (const std::string_view model : kModels) {
    if (name.starts_with(model)) return replaced(name, model, kModel);
  }
  return name;
}

std::string found_name(const std::string& name, const std::function<bool(const std::string&)>& has) {
  if (has(name)) return name;
  const bool of_model = name.starts_with(kModel);
  for (const std::string_view front : of_model ? std::span<const std::string_view>(kModels) : kHeads) {
    std::string spelled = with_fronts(name, front, front);
    if (has(spelled)) return spelled;
  }
  return name;
}

void find_names(TextPart& part, const std::function<bool(const std::string&)>& has) {
  for (const std::string_view model : kModels) {
    if (!has(std::string(model) + "embed_tokens.weight")) continue;
    part.model = model;
    break;
  }
  for (const std::string_view head : kHeads) {
    if (has(std::string(head) + "weight")) part.head = head;
  }
}

}  // namespace fathom::arch
