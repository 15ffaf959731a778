// Counts, and the sentences that tell them.
#include "data/notes.h"

#include <cstdio>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "tokenizer/utf8.h"

namespace fathom::data {
namespace {

constexpr size_t kMostNames = 20;  // what else a note says is counted under one name
constexpr const char* kOthers = "others";

}  // namespace

void LineNotes::add(Note note, const std::string& what) {
  constexpr size_t kLongest = 40;
  const std::string begin = what.substr(0, kLongest);
  notes.emplace(note, begin.substr(0, tokenizer::well_formed_prefix(begin)) + (what.size() > kLongest ? "…" : ""));
}

void Notes::add(const LineNotes& notes, int64_t line) {
  std::set<std::pair<Note, std::string>> all = notes.notes;
  for (const auto& [note, what] : notes.notes) all.emplace(note, "");
  Notes one;
  for (const auto& key : all) one.counts_[key] = {1, line};
  one.conversations_ = notes.is_conversation ? 1 : 0;
  one.looked_at_ = notes.targets > 0 ? 1 : 0;
  one.targets_ = notes.targets;
  one.of_assistant_ = notes.of_assistant;
  add(one);
}

void Notes::add(const Notes& later) {
  for (const auto& [key, count] : later.counts_) {
    const auto begin = counts_.lower_bound({key.first, ""}), end = counts_.lower_bound({key.first, "\xff"});
    const bool is_full = static_cast<size_t>(std::distance(begin, end)) >= kMostNames && !counts_.contains(key);
    Count& own = counts_[is_full ? std::pair(key.first, std::string(kOthers)) : key];
    if (own.lines == 0) own.first_line = count.first_line;
    own.lines += count.lines;
  }
  conversations_ += later.conversations_;
  looked_at_ += later.looked_at_;
  targets_ += later.targets_;
  of_assistant_ += later.of_assistant_;
}

Notes::Count Notes::count(Note note, const std::string& what) const {
  const auto found = counts_.find({note, what});
  return found == counts_.end() ? Count() : found->second;
}

// "id, source (3)": with the number of lines where that is not all that have the note.
std::string Notes::list_of(Note note) const {
  const Count all = count(note);
  std::string list;
  for (auto at = counts_.upper_bound({note, ""}); at != counts_.end() && at->first.first == note; ++at) {
    const auto& [key, counted] = *at;
    list += (list.empty() ? "" : ", ") + key.second;
    if (counted.lines != all.lines) list += " (" + format_count(counted.lines) + ")";
  }
  return list;
}

std::vector<std::string> Notes::told(int64_t examples) const {
  std::vector<std::string> lines;
  const auto tell = [&](Note note, const std::string& what) {
    const Count counted = count(note);
    if (counted.lines == 0) return;
    lines.push_back(format_count(counted.lines) + " of " + format_count(examples) + " examples " + what +
                    ", first in line " + std::to_string(counted.first_line));
  };
  tell(Note::kUnreadKey, "have keys that no format here reads: " + list_of(Note::kUnreadKey));
  tell(Note::kUnwritten,
       "have what the chat template never writes, so that nothing of it is learned: " + list_of(Note::kUnwritten));
  tell(Note::kSpecialText,
       "have the text of special tokens, which becomes these tokens, as in transformers (split_special_tokens: true "
       "keeps it text): " +
           list_of(Note::kSpecialText));
  tell(
      Note::kEmptyAnswer,
      "have nothing to learn but the token that ends them, or that ends one of their answers: text or answer is empty");
  tell(Note::kEqualAnswers, "have the same tokens for both answers, between which there is nothing to prefer");
  if (looked_at_ > 0 && of_assistant_ < targets_) {
    char share[16];
    std::snprintf(share, sizeof share, "%.1f %%",
                  100 * static_cast<double>(targets_ - of_assistant_) / static_cast<double>(targets_));
    lines.push_back(std::string(share) + " of the targets are not the assistant's, in " +
                    (looked_at_ == conversations_ ? "" : format_count(looked_at_) + " of ") +
                    format_counted(conversations_, "conversation") +
                    ": assistant_only_loss: true counts what the assistant says alone");
  }
  return lines;
}

std::string Notes::to_text() const {
  Json counts = Json::array();
  for (const auto& [key, counted] : counts_) {
    counts.push_back({static_cast<int>(key.first), key.second, counted.lines, counted.first_line});
  }
  return Json({{"counts", std::move(counts)},
               {"conversations", conversations_},
               {"share", {looked_at_, targets_, of_assistant_}}})
      .dump();
}

Notes Notes::from_text(std::string_view text) try {
  const Json json = parse_json(text, "notes");
  Notes notes;
  for (const Json& entry : json.at("counts")) {
    const auto note = static_cast<Note>(entry.at(0).get<int>());
    notes.counts_[{note, entry.at(1).get<std::string>()}] = {entry.at(2).get<int64_t>(), entry.at(3).get<int64_t>()};
  }
  notes.conversations_ = json.at("conversations").get<int64_t>();
  notes.looked_at_ = json.at("share").at(0).get<int64_t>();
  notes.targets_ = json.at("share").at(1).get<int64_t>();
  notes.of_assistant_ = json.at("share").at(2).get<int64_t>();
  return notes;
} catch (const Json::exception& error) {
  throw Error(std::string("notes of a file of tokens: ") + error.what());
}

}  // namespace fathom::data
