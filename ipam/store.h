// Leases on disk: which address belongs to which attachment.
//
// Shapes     <dir>/<network>/10.0.7.12           "<container id>\r\n<ifname>", mode 0600, whole or
//                                                absent
//            <dir>/<network>/fd00:..:5           IPv6 as in RFC 5952, which is how Go prints it
//            <dir>/<network>/last_reserved_ip.0  the address given out last in range set 0, no
//                                                line end
//            <dir>/<network>/lock                every operation locks it with flock(2), also in
//                                                the reference plugin
//            Leases of very old plugins hold only the container id, whose DEL releases them.
// Reserved   Anything else under an address's name, even an empty file, is an operator's
//            reservation: the address is taken, and stays taken.
// Other      Other files, whose names are no addresses, are ignored.
// Locks      A Store holds the lock for its lifetime. Keep that short, and never across a call that
//            changes the kernel.
// Errors     kIo for the file system, kTryAgain if the lock stays taken.
// Ownership  The directory should be on tmpfs: a reboot then removes the leases together with the
//            namespaces.
// Source     CNI plugins 1.9.1, host-local's disk backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/file_lock.h"
#include "base/ip.h"

namespace nomad_bridge::ipam {

// `ifname` is empty in leases of very old plugins; they apply to every interface of the container.
struct LeaseOwner {
  std::string container_id;
  std::string ifname;

  // Returns whether leases of this owner belong to `other`: both are the same, or this owner is the
  // whole container.
  [[nodiscard]] bool Matches(const LeaseOwner& other) const;
  bool operator==(const LeaseOwner&) const = default;
};

[[nodiscard]] inline LeaseOwner OwnerOf(const AttachmentId& id) {
  return {id.container_id, id.ifname};
}

// Returns the owner of `address` in `network` without taking the lock: for a reader, or for another
// directory than the locked one.
[[nodiscard]] std::optional<LeaseOwner> FindOwnerUnlocked(const std::string& data_dir,
                                                          const std::string& network,
                                                          const Ip& address);

// Owner of addresses that containers of other plugins had when the directory was new: their leases
// are in another directory. Such a lease stays for as long as a container has the address.
inline const LeaseOwner kLeasedElsewhere{.container_id = "leased-elsewhere", .ifname = "unknown"};

struct Lease {
  Ip address;
  LeaseOwner owner;
};

class Store {
 public:
  // Creates the directory if it is absent, and takes the lock.
  [[nodiscard]] static Store Open(const std::string& data_dir, const std::string& network);
  // Opens the store for reading and releasing. Takes the lock if the directory exists, else returns
  // nullopt, so that DEL does not create it.
  [[nodiscard]] static std::optional<Store> OpenIfExists(const std::string& data_dir,
                                                         const std::string& network);

  // Returns false if the address is taken.
  [[nodiscard]] bool Reserve(const Ip& address, const LeaseOwner& owner);
  // Removes the lease if `owner` owns it; a lease of another owner stays. It is no error if there
  // is no lease.
  void Release(const Ip& address, const LeaseOwner& owner);

  // Returns whether Reserve() would succeed: there is no file. One lstat(2).
  [[nodiscard]] bool IsFree(const Ip& address) const;
  // Returns nullopt if the address is free, or reserved.
  [[nodiscard]] std::optional<LeaseOwner> FindOwner(const Ip& address) const;
  // Returns every lease, in no order. Opens each file, which is slow with thousands: only for DEL
  // without a record, GC and a full pool.
  [[nodiscard]] std::vector<Lease> Leases() const;
  // Returns the time at which the lease was written, in seconds since the epoch; nullopt if there
  // is no lease.
  [[nodiscard]] std::optional<std::int64_t> WrittenAt(const Ip& address) const;

  // Returns whether no address was ever given out here: the directory is new, or was lost.
  [[nodiscard]] bool IsNew() const;
  // Removes the directory if it holds neither a lease nor anything else that is not ours.
  void RemoveIfUnused();
  [[nodiscard]] std::optional<Ip> LastReserved(std::size_t range_set) const;
  void SetLastReserved(std::size_t range_set, const Ip& address);

 private:
  explicit Store(std::string directory);
  [[nodiscard]] std::string PathOf(const Ip& ip) const { return directory_ + '/' + ip.Text(); }
  [[nodiscard]] std::string MarkPath(std::size_t range_set) const;

  std::string directory_;
  FileLock lock_;
};

}  // namespace nomad_bridge::ipam
