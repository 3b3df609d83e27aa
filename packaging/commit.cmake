# Writes OUT, the source of cli::BuildCommit(), if the commit is another one: cmake -D OUT=FILE -P ...
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/commit OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "plugin/cli/commit.h"

std::string_view nomad_bridge::cli::BuildCommit() {
  return "@commit@";
}
]])
