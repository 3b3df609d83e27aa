// The file of a record: read, written and read again, which must give the same.
#include <cstdlib>
#include <exception>
#include <string>

#include "plugin/rules/elements.h"
#include "plugin/state/state_json.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {
namespace {

void ReadRecord(std::string_view text) {
  state::StoredRecord first;
  try {
    first = state::ParseRecord(text);
  } catch (const std::exception&) {
    return;  // a damaged one counts as absent
  }
  const std::string written = state::FormatRecord(first.record, first.origin);
  const state::StoredRecord second = state::ParseRecord(written);
  if (state::FormatRecord(second.record, second.origin) != written) {
    std::abort();
  }
  static_cast<void>(rules::ElementsOf(second.record));
}

}  // namespace

void fuzz::Run(std::string_view input) {
  ReadRecord(input);
}

}  // namespace nomad_bridge
