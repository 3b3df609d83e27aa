// nomad-bridge install: puts this program and its names into a directory of plugins.
//
// Shapes     <directory>/nomad-bridge, a copy of the running program (mode 0755), and beside it a
//            relative link to it for every reference plugin that it stands in for.
//            Ours is a file, or the target of a link, that carries the mark which every build of this
//            program carries, and a link to "nomad-bridge" beside it, even if that is absent. Ours is
//            replaced. Anything else is refused, unless `replace`: then it stays beside the new one
//            as <name>.before-nomad-bridge, or .2, .3 ... if that exists. A directory is always
//            refused.
// Order      Everything is checked before anything is changed. Each name always leads to the old or
//            to the new program, and a running one is not disturbed (rename(2) over it).
// Locks      flock(2) of the directory: two at a time would use the same temporary names.
// Errors     kConflict naming everything that is not ours; kTryAgain if the directory is locked; kIo.
// Source     rename(2), link(2).
#pragma once

#include <string>

namespace nomad_bridge::cli {

struct Installation {
  std::string directory;  // created if absent
  bool replace = false;
};

// Writes a line per name to `out`.
void Install(const Installation& installation, int out);

}  // namespace nomad_bridge::cli
