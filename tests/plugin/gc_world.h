// A node with allocations of ours, and containers of other plugins whose leases are in the same
// directory. gc must treat these leases in the same way whatever the plugin: gc_world.cc has the
// cases, and each program that compiles it names its plugins.
#pragma once

#include <vector>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

class GcWorld : public CliWorld {
 protected:
  void UseAll() {
    UseOnce(kOther);
    WarmUp();
    Attach(Publish({Port(8080, 80)}));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
  }
};

// A container of another plugin, which has neither a link nor a rule that names it as their owner.
struct Living : Named {
  json plugin;
  std::vector<json> behind_it;
};

class GcOfForeignAttachments : public GcWorld, public ::testing::WithParamInterface<Living> {};

// With our host-local there is a record; but of their link it has nothing, and the path of a
// namespace is a name, which may go before the container does.
class GcOfRecordedAttachments : public GcWorld, public ::testing::WithParamInterface<Living> {};

}  // namespace nomad_bridge::test
