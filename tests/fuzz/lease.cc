// The file of a lease and that of the last address given out, in the data directory, which the
// reference host-local, or anybody, may have written.
#include <fstream>
#include <string>

#include "ipam/allocator.h"
#include "ipam/range.h"
#include "ipam/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/scratch_directory.h"

namespace nomad_bridge {
namespace {

void Write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace

void fuzz::Run(std::string_view input) {
  static const test::ScratchDirectory kDirectory;
  static ipam::Store store = ipam::Store::Open(kDirectory.path(), "net");
  static const std::vector<ipam::RangeSet> kSets =
      ipam::MakeRangeSets({{{.path = "ranges", .subnet = Cidr::Parse("10.0.0.0/29").value()}}});
  const std::string net = kDirectory.path() + "/net/";
  Write(net + "10.0.0.2", input);
  Write(net + "last_reserved_ip.0", input);

  const ipam::LeaseOwner owner{.container_id = "5f3c1a2b", .ifname = "eth0"};
  for (const ipam::Lease& lease : store.Leases()) {
    static_cast<void>(lease.owner.Matches(owner));
  }
  static_cast<void>(ipam::Choose(store, kSets, {.owner = owner}));
  store.Release(Ip::Parse("10.0.0.2").value(), owner);
}

}  // namespace nomad_bridge
