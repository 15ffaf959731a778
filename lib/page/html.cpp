// Escapes.
#include "page/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"
#include "base/json_value.h"

namespace fathom::page {
namespace {

// nlohmann's writer checks UTF-8 and replaces what is not: the text between its quotes, unescaped again, is sound.
std::string sound_utf8(std::string_view text) {
  const std::string written = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(written).get<std::string>();
}

}  // namespace

std::string title_of(std::string_view name) {
  std::string title(name);
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string bytes_text(double value) { return format_bytes(std::llround(std::clamp(value, -9e18, 9e18))); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : sound_utf8(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
        if (control) {
          result += "\xEF\xBF\xBD";
        } else {
          result += c;
        }
      }
    }
  }
  return result;
}

std::string script_json(const Json& value) {
  // ensure_ascii writes everything beyond ASCII, U+2028 among it, as \uXXXX.
  const std::string written = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string result;
  result.reserve(written.size());
  for (const char c : written) {
    // Outside of strings JSON has none of the three.
    if (c == '<') {
      result += "\\u003c";
    } else if (c == '>') {
      result += "\\u003e";
    } else if (c == '&') {
      result += "\\u0026";
    } else {
      result += c;
    }
  }
  return result;
}

std::string decimal(double value, int decimals) {
  if (!std::isfinite(value)) return "0";
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  std::string result = text.data();
  if (result.find('.') != std::string::npos) {
    while (result.back() == '0') result.pop_back();
    if (result.back() == '.') result.pop_back();
  }
  return result == "-0" ? "0" : result;
}

std::string percent(double share) { return decimal(100 * share, 3) + "%"; }

void HtmlTable::leave_out_empty_columns() {
  const auto is_empty = [](const std::vector<std::string>& row, size_t i) {
    return row.empty() || row[i].empty() || row[i] == kNone;
  };
  for (size_t i = columns.size(); i-- > 1;) {
    const bool used = !is_empty(total, i) ||
                      std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !is_empty(row, i); });
    if (used) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    columns.erase(columns.begin() + at);
    for (auto& row : rows) row.erase(row.begin() + at);
    if (!total.empty()) total.erase(total.begin() + at);
  }
}

std::string HtmlTable::format() const {
  const bool wide = columns.size() > kColumnsOfNarrowPage;
  std::string text = wide ? "<div class=\"scroll\"><table class=\"wide\">" : "<div class=\"scroll\"><table>";
  if (!caption.empty()) text += "<caption>" + caption + "</caption>";
  text += "<thead><tr>";
  for (const Column& column : columns) {
    text += std::string("<th scope=\"col\"") + (column.number ? " class=\"n\"" : "") + ">" + column.title + "</th>";
  }
  text += "</tr></thead>\n<tbody>";
  const auto add_row = [&](const std::vector<std::string>& cells, const char* of) {
    text += std::string("<tr") + of + ">";
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i == 0) {
        text += "<th scope=\"row\">" + cells[i] + "</th>";
        continue;
      }
      const Column& column = columns.at(i);
      const bool plain = column.title.find('<') == std::string::npos;
      text += std::string("<td") + (column.number ? " class=\"n\"" : "");
      if (wide && plain && !column.title.empty()) text += " data-title=\"" + column.title + "\"";
      text += ">" + cells[i] + "</td>";
    }
    text += "</tr>\n";
  };
  for (const auto& row : rows) add_row(row, "");
  if (!total.empty()) add_row(total, " class=\"total\"");
  return text + "</tbody></table></div>\n";
}

}  // namespace fathom::page
