#include "plugin/cli/document.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text.h"

namespace nomad_bridge::cli {
namespace {

bool IsOnOneLine(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return std::iscntrl(c) != 0; });
}

}  // namespace

void PrintDocument(const Json& fields) {
  Json document = {{"version", 1}};
  document.update(fields);
  Print(Cat(document.dump(2, ' ', false, Json::error_handler_t::replace), '\n'));
}

std::string PlainText(const Json& value) {
  if (value.is_null() || value == "") {
    return "-";
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Cell ShowPlain(const Json& value) {
  return PlainText(value);
}

std::string TableOf(const Json& rows, std::span<const Column> columns) {
  Table table;
  for (const Column& column : columns) {
    table.AddColumn(column.header, column.cuts);
  }
  for (const Json& row : rows) {
    std::vector<Cell> cells;
    for (const Column& column : columns) {
      const Json::json_pointer pointer(column.pointer);
      cells.push_back(column.show(row.contains(pointer) ? row.at(pointer) : Json()));
    }
    table.Add(cells);
  }
  return table.Text();
}

Json FindingJson(const Finding& finding) {
  return {{"what", finding.text},
          {"verdict", NameOf(kSeverityNames, finding.severity)},
          {"fix", finding.fix.command},
          {"advice", finding.fix.advice}};
}

std::string ShowFix(const Json& finding) {
  Fix fix = finding.at("fix").get<std::string>();
  const auto advice = finding.at("advice").get<std::string>();
  // Printable() would change the quotes of what is to be typed.
  fix.advice = IsOnOneLine(advice) ? advice : Printable(advice);
  return fix.Line();
}

std::string ShowWithFix(const Json& finding) {
  const std::string fix = ShowFix(finding);
  return Cat(ShowPlain(finding.at("what")).text, fix.empty() ? "" : "; ", fix);
}

}  // namespace nomad_bridge::cli
