// This program and its names, laid into a folder of plugins.
//
// Lays     <folder>/nomad-bridge, a copy of the running program (mode 0755), and beside it one
//          relative link to it for every reference plugin whose part it plays.
// Ours     is a file, or what a link leads to, that carries the mark which every build of this
//          program carries; and a link to "nomad-bridge" beside it, even if that is not there.
//          Ours is replaced. Anything else is refused, unless `replace`: then it stays beside the
//          new one as <name>.before-nomad-bridge, or .2, .3 ... if there is such a file already.
//          A folder is always refused.
// Order    Everything is checked before anything is changed. Each name always leads to the old or
//          to the new program, and a running one is not disturbed (rename(2) over it).
// Lock     flock(2) of the folder: two at a time would use the same temporary names.
// Errors   kConflict naming everything that is not ours; kIo.
#pragma once

#include <string>

namespace nomad_bridge::cli {

struct Installation {
  std::string folder;  // made if absent
  bool replace = false;
};

// Says on `out` what it did, a line per name.
void Install(const Installation& wanted, int out);

}  // namespace nomad_bridge::cli
