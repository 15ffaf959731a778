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

constexpr int64_t kBetweenColumns = 2;
constexpr int64_t kNarrowestFold = 12;

// The start of `text`, at least a character, that takes at most `columns` of a terminal: whole words if there is a
// blank, else whole parts of a name.
std::string_view first_line(std::string_view text, int64_t columns) {
  size_t end = 0, after_word = 0, after_part = 0;  // of a name: "model.layers."
  for (int64_t width = 0; end < text.size();) {
    const CodePoint point = decode(text.substr(end));
    width += display_width(text.substr(end, point.bytes));
    if (text[end] == ' ') after_word = end;
    if (width > columns && end > 0)
      return text.substr(0, after_word > 0 ? after_word : after_part > 0 ? after_part : end);
    end += point.bytes;
    if (point.value == '.' || point.value == '/') after_part = end;
  }
  return text;
}

std::string indentation_of_further_lines(std::string_view line, int64_t columns) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  size_t text = begin + 2;
  for (size_t gap = line.find("  ", begin); gap != std::string_view::npos; gap = line.find("  ", gap)) {
    gap = std::min(line.find_first_not_of(' ', gap), line.size());
    if (display_width(line.substr(0, gap)) <= columns / 2) text = gap;
  }
  return std::string(static_cast<size_t>(display_width(line.substr(0, text))), ' ');
}

// One line of prose, further lines indented; a word that is wider stays whole.
std::string folded_line(std::string_view line, int64_t columns) {
  const std::string further = indentation_of_further_lines(line, columns);
  std::string result, indent;
  while (display_width(indent) + display_width(line) > columns) {
    const size_t begin = line.find_first_not_of(' ');
    size_t end = line.rfind(' ', first_line(line, columns - display_width(indent)).size());
    if (end == std::string_view::npos || end < begin) end = line.find(' ', begin);
    if (end == std::string_view::npos) break;
    result.append(indent).append(line.substr(0, end)).append("\n");
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    indent = further;
  }
  return line.empty() ? result : result.append(indent).append(line);
}

// A cell's lines, all but the first indented.
std::vector<std::string> cell_lines(std::string_view cell, int64_t width) {
  std::vector<std::string> lines;
  while (lines.empty() || !cell.empty()) {
    const int64_t indentation = lines.empty() ? 0 : 2;
    const std::string_view line = first_line(cell, width - indentation);
    lines.push_back(std::string(static_cast<size_t>(indentation), ' ') + std::string(line));
    cell.remove_prefix(std::min(cell.find_first_not_of(' ', line.size()), cell.size()));
  }
  return lines;
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

std::string folded(std::string_view text, int64_t columns) {
  std::string result;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    result += folded_line(text.substr(0, end), columns);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
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

std::vector<Table::Shown> Table::fitted(int64_t columns) const {
  std::vector<Shown> shown;
  int64_t total = -kBetweenColumns;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int64_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[i]));
    }
    shown.push_back({i, width});
    total += width + kBetweenColumns;
  }
  if (columns == 0) return shown;
  const auto order = [&](const Shown& one) { return columns_[one.column].gives_way; };
  while (total > columns) {
    auto next = shown.end();
    for (auto one = shown.begin(); one != shown.end(); ++one) {
      if (order(*one) > 0 && (next == shown.end() || order(*one) < order(*next))) next = one;
    }
    if (next == shown.end()) break;
    total -= next->width + kBetweenColumns;
    shown.erase(next);
  }
  while (total > columns) {  // the widest of those that fold, by as much as is needed
    Shown* widest = nullptr;
    for (Shown& one : shown) {
      if (columns_[one.column].folds && (!widest || one.width > widest->width)) widest = &one;
    }
    if (!widest || widest->width <= kNarrowestFold) break;
    widest->width--;
    total--;
  }
  return shown;
}

std::string Table::format(int64_t columns) const {
  const std::vector<Shown> shown = fitted(columns);
  int64_t total = -kBetweenColumns;
  for (const Shown& one : shown) total += one.width + kBetweenColumns;
  std::string rule;
  for (int64_t i = 0; i < total; ++i) rule += "─";

  std::string text;
  const auto append = [&](const auto& cell_at) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (const Shown& one : shown) {
      const bool folds = columns_[one.column].folds;
      cells.push_back(folds ? cell_lines(cell_at(one.column), one.width) : std::vector{cell_at(one.column)});
      height = std::max(height, cells.back().size());
    }
    for (size_t k = 0; k < height; ++k) {
      std::string line;
      for (size_t i = 0; i < shown.size(); ++i) {
        const std::string cell = k < cells[i].size() ? cells[i][k] : std::string();
        line += (i == 0 ? "" : "  ") + padded(cell, shown[i].width, columns_[shown[i].column].align);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
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
