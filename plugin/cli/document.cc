#include "plugin/cli/document.h"

#include "base/text.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {

Json NewDocument() {
  return {{"version", 1}};
}

void PrintDocument(const Json& document) {
  Print(Cat(document.dump(2, ' ', false, Json::error_handler_t::replace), '\n'));
}

}  // namespace nomad_bridge::cli
