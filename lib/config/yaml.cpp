// yaml-cpp's event stream under rules of our own: its document tree takes the first of duplicate keys silently.
#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "config/text.h"
#include "config/value.h"

namespace fathom::config {
namespace {

constexpr size_t kDeepest = 8;

// Thrown through the parser to end it early; the reason is already among the problems.
struct Stop {};

class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, Problems& problems) : text_(text), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (awaits_key()) stop(mark, "a key is missing", "write key: value");
    place(mark, Value::Kind::kNull);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.add(position(mark), key_in_hand(), "an alias (*name) is not taken", "write the value itself");
    if (awaits_key()) throw Stop{};
    place(mark, Value::Kind::kNull);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (tag == "!") refuse_open_quote(mark);
    if (awaits_key()) {
      take_key(mark, text);
      return;
    }
    Value& value = place(mark, Value::Kind::kScalar);
    value.text = text;
    value.quoted = tag == "!";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::Kind::kMap);
  }
  void OnSequenceEnd() override { frames_.pop_back(); }
  void OnMapEnd() override { frames_.pop_back(); }

  Value take() { return std::move(root_); }

 private:
  struct Frame {
    Value* container;
    bool has_key = false;  // of a map: the next value belongs to the last entry
  };

  static Position position(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }
  bool awaits_key() const {
    return !frames_.empty() && frames_.back().container->kind == Value::Kind::kMap && !frames_.back().has_key;
  }
  std::string key_in_hand() const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      if (frame->has_key) return frame->container->entries.back().key;
    }
    return "";
  }
  [[noreturn]] void stop(const YAML::Mark& mark, const std::string& message, const std::string& remedy) {
    problems_.add(position(mark), key_in_hand(), message, remedy);
    throw Stop{};
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    problems_.add(position(mark), key_in_hand(), "an anchor (&name) is not taken", "remove it");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;  // what yaml-cpp gives plain and quoted scalars without a tag
    problems_.add(position(mark), key_in_hand(), "the tag '" + printable(tag) + "' is not taken", "remove it");
  }
  // yaml-cpp takes the lines that follow for more of the text, to the end of the file if need be.
  void refuse_open_quote(const YAML::Mark& mark) {
    const auto opening = static_cast<size_t>(mark.pos);  // counts bytes, as YAML::Stream reads them
    if (opening >= text_.size() || (text_[opening] != '"' && text_[opening] != '\'')) return;
    const std::string_view line = text_.substr(opening, text_.find('\n', opening) - opening);
    const char quote = line[0];
    for (size_t at = 1; at < line.size(); ++at) {
      if (quote == '"' && line[at] == '\\') {
        ++at;
      } else if (line[at] == quote) {
        if (quote == '"' || at + 1 >= line.size() || line[at + 1] != quote) return;
        ++at;
      }
    }
    stop(mark, "the quote that opens here is not closed on its line", "close it, or write the value without quotes");
  }
  void take_key(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = frames_.back();
    if (key == "<<") stop(mark, "the merge key << is not taken", "write the keys out");
    const auto& entries = frame.container->entries;
    const auto earlier =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
    if (earlier != entries.end()) {
      problems_.add(
          position(mark), key,
          "stands here again, first at " + std::to_string(earlier->at.line) + ":" + std::to_string(earlier->at.column),
          "remove one of them");
    }
    if (entries.size() >= kMostEntries) stop(mark, "more than 1000 keys", "is this the right file?");
    frame.container->entries.push_back({key, position(mark), {}});
    frame.has_key = true;
  }
  Value& place(const YAML::Mark& mark, Value::Kind kind) {
    Value value;
    value.kind = kind;
    value.at = position(mark);
    if (frames_.empty()) return root_ = std::move(value);
    Frame& frame = frames_.back();
    if (frame.container->kind == Value::Kind::kList) return frame.container->items.emplace_back(std::move(value));
    frame.has_key = false;
    return frame.container->entries.back().value = std::move(value);
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Value::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (awaits_key()) stop(mark, "a key cannot be a list or a map", "write key: value");
    if (frames_.size() >= kDeepest) stop(mark, "nested deeper than 8 levels", "configs are flat");
    frames_.push_back({&place(mark, kind)});
  }

  static constexpr size_t kMostEntries = 1000;
  std::string_view text_;
  Problems& problems_;
  Value root_;
  std::vector<Frame> frames_;  // a container stays where it is: its parent grows only after it is closed
};

Value parse(std::string_view text, Problems& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // marks do not count it
  Builder builder(text, problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (parser) {
      Problems ignored("");
      Builder second(text, ignored);
      if (parser.HandleNextDocument(second)) problems.add({}, "", "more than one document", "remove what follows ---");
    }
  } catch (const Stop&) {
  } catch (const YAML::ParserException& error) {
    problems.add({error.mark.line + 1, error.mark.column + 1}, "", "not valid YAML: " + error.msg);
  } catch (const YAML::Exception& error) {
    problems.add({}, "", "not valid YAML: " + error.msg);
  }
  return builder.take();
}

}  // namespace

std::vector<Entry> read_yaml(std::string_view text, Problems& problems) {
  const size_t bad = first_bad_byte(text, /*lines=*/true);
  if (bad < text.size()) {
    const std::string_view before = text.substr(0, bad);
    const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    const auto start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    problems.add({line, static_cast<int>(bad - start) + 1}, "", "not a text in UTF-8", "is this the right file?");
    return {};
  }
  Value root = parse(text, problems);
  if (root.kind != Value::Kind::kMap && root.kind != Value::Kind::kNull) {
    problems.add(root.at, "", {"lines of key: value", describe(root), ""});
  }
  return std::move(root.entries);
}

Value read_yaml_value(std::string_view key, std::string_view text, Problems& problems) {
  constexpr Position kCommandLine{0, 0, true};
  Problems own("");
  Value value;
  if (!is_printable_text(text)) {
    problems.add(kCommandLine, key, "not a text in UTF-8 on one line");
  } else {
    value = parse(text, own);
    if (!own.empty())
      problems.add(kCommandLine, key, "'" + printable(text) + "' is not a value", "quote it twice: key='\"value\"'");
  }
  value.at = kCommandLine;
  return value;
}

}  // namespace fathom::config
