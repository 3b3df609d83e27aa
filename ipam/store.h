// Leases on disk: which address belongs to which attachment.
//
// Shape   <dir>/<network>/10.0.7.12             "<container id>\r\n<ifname>", mode 0600, whole or
//         absent
//         <dir>/<network>/fd00:..:5             IPv6 in its RFC 5952 spelling, as Go prints it
//         <dir>/<network>/last_reserved_ip.0    the address given out last in range set 0, no line
//                                               end
//         <dir>/<network>/lock                  flock(2)ed by every operation, the reference
//                                               plugin's too
// Junk    Names that are no address, subfolders and links are left alone. An *empty* file is what a
//         writer killed between creating and writing leaves (the reference plugin; never we). It
//         blocks its address in the reference plugin for ever; here it counts as free and the next
//         Reserve() overwrites it, which is safe because every writer holds the lock. Anything else
//         under an address's name, whatever it holds, keeps the address taken: we cannot know
//         whose.
// Locks   A Store holds the lock as long as it lives. Keep it short, and never across a call that
//         changes the kernel.
// Errors  kIo for the file system, kTryAgain if the lock stays taken.
// Lives   on tmpfs: a reboot empties it together with the namespaces it describes.
// Source  CNI plugins 1.9.1, host-local's disk backend. Old leases may hold the container id alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/attachment_id.h"
#include "base/file_lock.h"
#include "base/ip.h"

namespace nomad_bridge::ipam {

// Who holds an address. `ifname` is empty in leases of very old plugins, which mean every
// interface.
struct LeaseOwner {
  std::string container_id;
  std::string ifname;

  // Whether this is `other`'s lease: the same, or the whole container's.
  [[nodiscard]] bool Matches(const LeaseOwner& other) const;
  bool operator==(const LeaseOwner&) const = default;
};

struct Lease {
  Ip address;
  LeaseOwner owner;
};

class Store {
 public:
  // Makes the folder if need be, and takes the lock.
  [[nodiscard]] static Store Open(const std::string& data_dir, const std::string& network);
  // The same for reading and releasing: nullopt if there is no such folder, so that DEL leaves none
  // behind.
  [[nodiscard]] static std::optional<Store> OpenIfExists(const std::string& data_dir,
                                                         const std::string& network);

  // False if the address is taken.
  [[nodiscard]] bool Reserve(const Ip& address, const LeaseOwner& owner);
  // Gives `address` back if `owner` holds it; anybody else's lease stays. Absent is success.
  void Release(const Ip& address, const LeaseOwner& owner);

  // Whether Reserve() would succeed: no file, or an empty one. One look, nothing is opened.
  [[nodiscard]] bool IsFree(const Ip& address) const;
  // nullopt if it is free, or if its file names nobody.
  [[nodiscard]] std::optional<LeaseOwner> FindOwner(const Ip& address) const;
  // Every address that has a file, also an empty one, in no order, from the folder's listing alone:
  // no file is opened.
  [[nodiscard]] std::vector<Ip> InUse() const;
  // Every lease, each file opened: slow with thousands, only for DEL without a record, GC and a
  // full pool.
  [[nodiscard]] std::vector<Lease> Leases() const;
  // Seconds since the epoch at which the lease was written; nullopt if there is none.
  [[nodiscard]] std::optional<std::int64_t> WrittenAt(const Ip& address) const;

  [[nodiscard]] std::optional<Ip> LastReserved(std::size_t range_set) const;
  void SetLastReserved(std::size_t range_set, const Ip& address);

 private:
  Store(std::string folder, FileLock lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}
  [[nodiscard]] std::string PathOf(const Ip& address) const;
  [[nodiscard]] std::string MarkPath(std::size_t range_set) const;

  std::string folder_;
  FileLock lock_;
};

}  // namespace nomad_bridge::ipam
