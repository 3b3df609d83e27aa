// Which sets, chains and rules this binary describes: another release's tables are told by it without
// describing them, which would take longer than all else that a quiet CHECK does.
//
// Shape  16 hexadecimal digits, fixed when it is built (tables_revision.cmake); another one whenever a
//        source that our tables are described and encoded by has changed.
#pragma once

namespace nomad_bridge::rules {

extern const char* const kTablesRevision;

}  // namespace nomad_bridge::rules
