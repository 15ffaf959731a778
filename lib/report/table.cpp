// Aligns cells by their width on a terminal.
#include "report/table.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/terminal.h"

namespace fathom::report {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
};

// The code point at the start of `text`; a byte that starts no valid sequence stands for itself.
CodePoint decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead < 0x80                    ? 1
                       : lead >= 0xC2 && lead < 0xE0  ? 2
                       : (lead & 0xF0) == 0xE0        ? 3
                       : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                      : 0;
  if (bytes <= 1 || text.size() < bytes) return {lead, 1};
  uint32_t value = lead & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {lead, 1};
    value = (value << 6) | (next & 0x3F);
  }
  return {value, bytes};
}

using Range = std::pair<uint32_t, uint32_t>;
constexpr std::array<Range, 6> kZeroWidth = {{
    {0x0300, 0x036F},
    {0x0483, 0x0489},
    {0x200B, 0x200F},
    {0x20D0, 0x20FF},
    {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F},
}};
constexpr std::array<Range, 9> kDoubleWidth = {{
    {0x1100, 0x115F},
    {0x2E80, 0xA4CF},
    {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},
    {0x1F300, 0x1FAFF},
    {0x20000, 0x3FFFD},
}};

bool is_in(const auto& ranges, uint32_t value) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [value](const Range& range) { return range.first <= value && value <= range.second; });
}

std::string padded(const std::string& cell, int64_t width, Align align) {
  const std::string spaces(static_cast<size_t>(std::max<int64_t>(0, width - display_width(cell))), ' ');
  return align == Align::kLeft ? cell + spaces : spaces + cell;
}

}  // namespace

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    width += is_in(kZeroWidth, point.value) ? 0 : is_in(kDoubleWidth, point.value) ? 2 : 1;
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string wrapped(std::string_view text, int64_t width, std::string_view indent) {
  std::string result;
  int64_t at = 0;  // columns of the line so far
  bool begins = true;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == '\n') {
      if (text.front() == '\n') {
        result += '\n';
        at = 0;
        begins = true;
      } else if (begins) {  // what a line begins with
        result += ' ';
        ++at;
      }
      text.remove_prefix(1);
      continue;
    }
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    const int64_t columns = display_width(word);
    if (!begins && at + 1 + columns > width) {
      result.append("\n").append(indent);
      at = display_width(indent);
    } else if (!begins) {
      result += ' ';
      ++at;
    }
    result += word;
    at += columns;
    begins = false;
    text.remove_prefix(word.size());
  }
  return result;
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.empty() || cells.size() != columns_.size()) {
    throw std::logic_error("a table row has " + std::to_string(cells.size()) + " cells for " +
                           std::to_string(columns_.size()) + " columns");
  }
  // Here, so that columns are as wide as what is shown.
  for (std::string& cell : cells) cell = shown_in_terminal(cell);
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::format() const {
  std::vector<int64_t> widths;
  int64_t total = 2 * (static_cast<int64_t>(columns_.size()) - 1);
  for (size_t i = 0; i < columns_.size(); ++i) {
    int64_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[i]));
    }
    widths.push_back(width);
    total += width;
  }
  std::string rule;
  for (int64_t i = 0; i < total; ++i) rule += "─";

  std::string text;
  const auto append = [&](const auto& cell_at) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      line += (i == 0 ? "" : "  ") + padded(cell_at(i), widths[i], columns_[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  append([&](size_t i) { return columns_[i].title; });
  text += rule + "\n";
  for (const auto& row : rows_) {
    if (row.empty()) {
      text += rule + "\n";
    } else {
      append([&](size_t i) { return row[i]; });
    }
  }
  return text;
}

}  // namespace fathom::report
