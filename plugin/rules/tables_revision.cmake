# Writes the definition of kTablesRevision (tables_revision.h): cmake -D OUTPUT=... -D ROOT=... -P this SOURCE...
# A hash of their content in the order of their names, so that it does not depend on where, or by what, it is built.
set(contents "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(CMAKE_ARGV${i} MATCHES "^[a-z].*\\.(cc|h)$")
    file(SHA256 "${ROOT}/${CMAKE_ARGV${i}}" hash)
    string(APPEND contents "${CMAKE_ARGV${i}} ${hash}\n")
  endif()
endforeach()
string(SHA256 revision "${contents}")
string(SUBSTRING "${revision}" 0 16 revision)
file(WRITE "${OUTPUT}" "#include \"plugin/rules/tables_revision.h\"

const char* const nomad_bridge::rules::kTablesRevision = \"${revision}\";
")
