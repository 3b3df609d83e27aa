#include "ipam/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include <unistd.h>

#include "base/attachment_id.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

constexpr std::string_view kLockName = "lock";
constexpr std::string_view kMarkName = "last_reserved_ip.";
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kWhiteSpace = " \t\r\n";
// A lease consists of two names from environment variables, which are never longer. A longer file
// is no lease and is not read.
constexpr std::size_t kMaxLeaseBytes = 256 << 10;

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::string Content(const LeaseOwner& owner) {
  return Cat(owner.container_id, kLineEnd, owner.ifname);
}

// Returns nullopt if no plugin has written `content`: an operator's note only reserves the address.
std::optional<LeaseOwner> ParseOwner(std::string_view content) {
  content = Trim(content);
  const std::size_t end = std::min(content.find(kLineEnd), content.size());
  LeaseOwner owner{.container_id = std::string(content.substr(0, end)),
                   .ifname = std::string(Trim(content.substr(end)))};
  const bool is_lease = IsPlainName(owner.container_id) &&
                        owner.ifname.find_first_of(kWhiteSpace) == owner.ifname.npos;
  return is_lease ? std::optional(std::move(owner)) : std::nullopt;
}

std::optional<LeaseOwner> ReadOwner(const std::string& path) {
  const std::optional<struct stat> status = FindStatus(path);
  if (!status || !S_ISREG(status->st_mode) || status->st_size > off_t{kMaxLeaseBytes}) {
    return std::nullopt;
  }
  const std::optional<std::string> content = FindFile(path, kMaxLeaseBytes);
  return content ? ParseOwner(*content) : std::nullopt;
}

}  // namespace

std::optional<LeaseOwner> FindOwnerUnlocked(const std::string& data_dir,
                                            const std::string& network,
                                            const Ip& address) {
  return ReadOwner(Cat(data_dir, '/', network, '/', address));
}

bool LeaseOwner::Matches(const LeaseOwner& other) const {
  return container_id == other.container_id && (ifname.empty() || ifname == other.ifname);
}

Store::Store(std::string directory)
    : directory_(std::move(directory)),
      lock_(FileLock::Take(Cat(directory_, '/', kLockName),
                           std::nullopt,
                           LockKind::kLeases,
                           Format("the leases in '{}'", directory_))) {}

Store Store::Open(const std::string& data_dir, const std::string& network) {
  const std::string directory = Cat(data_dir, '/', network);
  for (;;) {
    EnsureDirectory(directory);
    try {
      return Store(directory);
    } catch (const Error&) {
      // Tries again if the last DEL of the network has removed the directory meanwhile.
      if (FindStatus(directory)) {
        throw;
      }
    }
  }
}

std::optional<Store> Store::OpenIfExists(const std::string& data_dir, const std::string& network) {
  const std::string directory = Cat(data_dir, '/', network);
  struct stat status {};
  // Follows a symbolic link, as Open() does.
  if (::stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return std::nullopt;
  }
  try {
    return Store(directory);
  } catch (const Error&) {
    if (FindStatus(directory)) {
      throw;
    }
    return std::nullopt;  // removed meanwhile
  }
}

bool Store::Reserve(const Ip& address, const LeaseOwner& owner) {
  return CreateFile(PathOf(address), Content(owner));
}

void Store::Release(const Ip& address, const LeaseOwner& owner) {
  const std::optional<LeaseOwner> present = FindOwner(address);
  if (present && present->Matches(owner)) {
    EnsureFileGone(PathOf(address));
  }
}

bool Store::IsFree(const Ip& address) const {
  return !FindStatus(PathOf(address));
}

std::optional<LeaseOwner> Store::FindOwner(const Ip& address) const {
  return ReadOwner(PathOf(address));
}

std::vector<Lease> Store::Leases() const {
  std::vector<Lease> leases;
  for (const std::string& name : Entries(directory_)) {
    const std::optional<Ip> address = Ip::Parse(name);
    std::optional<LeaseOwner> owner = address ? FindOwner(*address) : std::nullopt;
    if (owner) {
      leases.push_back({.address = *address, .owner = *std::move(owner)});
    }
  }
  return leases;
}

std::optional<std::int64_t> Store::WrittenAt(const Ip& address) const {
  const std::optional<struct stat> status = FindStatus(PathOf(address));
  return status ? std::optional<std::int64_t>(status->st_mtim.tv_sec) : std::nullopt;
}

std::string Store::MarkPath(std::size_t range_set) const {
  return Cat(directory_, '/', kMarkName, range_set);
}

bool Store::IsNew() const {
  return !FindStatus(MarkPath(0));
}

void Store::RemoveIfUnused() {
  std::vector<std::string> names = Entries(directory_);
  const bool is_unused = std::ranges::all_of(names, [](const std::string& name) {
    return name == kLockName || name.starts_with(kMarkName);
  });
  const std::optional<struct stat> status = FindStatus(directory_);
  if (!is_unused || !status || !S_ISDIR(status->st_mode)) {
    return;
  }
  std::erase(names, kLockName);
  for (const std::string& name : names) {
    EnsureFileGone(Cat(directory_, '/', name));
  }
  // The lock last: who waits for it finds out that it is gone, and makes the directory again.
  EnsureFileGone(Cat(directory_, '/', kLockName));
  static_cast<void>(::rmdir(directory_.c_str()));
}

std::optional<Ip> Store::LastReserved(std::size_t range_set) const {
  const std::optional<struct stat> status = FindStatus(MarkPath(range_set));
  if (!status || !S_ISREG(status->st_mode)) {
    return std::nullopt;
  }
  const std::optional<std::string> content = FindFile(MarkPath(range_set), kMaxLeaseBytes);
  return content ? Ip::Parse(Trim(*content)) : std::nullopt;
}

void Store::SetLastReserved(std::size_t range_set, const Ip& address) {
  ReplaceFile(MarkPath(range_set), address.Text());
}

}  // namespace nomad_bridge::ipam
