#include "ipam/store.h"

#include <cerrno>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kWhiteSpace = " \t\r\n";
// A lease is two names, and an environment holds no longer ones. Whatever is longer is no lease, and
// is not read to its end.
constexpr std::size_t kMaxLeaseBytes = 256 << 10;
// A full /20, in one piece of memory from the start.
constexpr std::size_t kUsualLeases = 4096;

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::string FolderOf(const std::string& data_dir, const std::string& network) {
  return Cat(data_dir, '/', network);
}

FileLock TakeLock(const std::string& folder) {
  return FileLock::Take(
      Cat(folder, "/lock"), LockKind::kLeases, Cat("the leases in ", Quoted(folder)));
}

// What has the name `path`, symbolic links not followed; nullopt if nothing.
std::optional<struct stat> FindStatus(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    return status;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return std::nullopt;
  }
  throw ErrnoError(Code::kIo, Cat("cannot look at ", Quoted(path)));
}

std::string Content(const LeaseOwner& owner) {
  return Cat(owner.container_id, kLineEnd, owner.ifname);
}

std::optional<LeaseOwner> ParseHolder(std::string_view content) {
  content = Trim(content);
  if (content.empty()) {
    return std::nullopt;
  }
  const std::size_t line_end = content.find_first_of(kLineEnd);
  if (line_end == std::string_view::npos) {
    return LeaseOwner{.container_id = std::string(content), .ifname = {}};
  }
  return LeaseOwner{.container_id = std::string(content.substr(0, line_end)),
                    .ifname = std::string(Trim(content.substr(line_end)))};
}

}  // namespace

bool LeaseOwner::Matches(const LeaseOwner& other) const {
  return container_id == other.container_id && (ifname.empty() || ifname == other.ifname);
}

Store Store::Open(const std::string& data_dir, const std::string& network) {
  std::string folder = FolderOf(data_dir, network);
  EnsureDirectory(folder);
  FileLock lock = TakeLock(folder);
  return {std::move(folder), std::move(lock)};
}

std::optional<Store> Store::OpenIfExists(const std::string& data_dir, const std::string& network) {
  std::string folder = FolderOf(data_dir, network);
  struct stat status {};
  // Follows a symbolic link, as Open() would: the folder may lie elsewhere.
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return std::nullopt;
  }
  FileLock lock = TakeLock(folder);
  return Store(std::move(folder), std::move(lock));
}

bool Store::Reserve(const Ip& address, const LeaseOwner& owner) {
  const std::string path = PathOf(address);
  if (CreateFile(path, Content(owner))) {
    return true;
  }
  if (!IsFree(address)) {
    return false;
  }
  // An empty file: nobody can be about to fill it, for we hold the lock. Removed first rather than
  // replaced, because a replacement killed half way leaves a second file that the reference plugin
  // takes for a lease.
  EnsureFileGone(path);
  return CreateFile(path, Content(owner));
}

void Store::Release(const Ip& address, const LeaseOwner& owner) {
  const std::optional<LeaseOwner> present = FindOwner(address);
  if (present && present->Matches(owner)) {
    EnsureFileGone(PathOf(address));
  }
}

bool Store::IsFree(const Ip& address) const {
  const std::optional<struct stat> status = FindStatus(PathOf(address));
  return !status || (S_ISREG(status->st_mode) && status->st_size == 0);
}

std::optional<LeaseOwner> Store::FindOwner(const Ip& address) const {
  const std::string path = PathOf(address);
  const std::optional<struct stat> status = FindStatus(path);
  if (!status || !S_ISREG(status->st_mode) || status->st_size > off_t{kMaxLeaseBytes}) {
    return std::nullopt;
  }
  const std::optional<std::string> content = FindFile(path, kMaxLeaseBytes);
  return content ? ParseHolder(*content) : std::nullopt;
}

std::vector<Ip> Store::InUse() const {
  // Not Entries(): with 4,000 leases its strings would cost as much as a quarter of what the kernel
  // takes.
  const auto close_folder = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close_folder)> open(::opendir(folder_.c_str()), close_folder);
  if (open == nullptr) {
    throw ErrnoError(Code::kIo, Cat("cannot list ", Quoted(folder_)));
  }
  std::vector<Ip> taken;
  taken.reserve(kUsualLeases);
  while (const dirent* const entry = ::readdir(open.get())) {
    if (const std::optional<Ip> address = Ip::Parse(entry->d_name)) {
      taken.push_back(*address);
    }
  }
  return taken;
}

std::vector<Lease> Store::Leases() const {
  std::vector<Lease> leases;
  for (const Ip& address : InUse()) {
    if (std::optional<LeaseOwner> owner = FindOwner(address)) {
      leases.push_back({.address = address, .owner = *std::move(owner)});
    }
  }
  return leases;
}

std::optional<std::int64_t> Store::WrittenAt(const Ip& address) const {
  const std::optional<struct stat> status = FindStatus(PathOf(address));
  return status ? std::optional<std::int64_t>(status->st_mtim.tv_sec) : std::nullopt;
}

std::optional<Ip> Store::LastReserved(std::size_t range_set) const {
  const std::optional<std::string> content = FindFile(MarkPath(range_set), kMaxLeaseBytes);
  return content ? Ip::Parse(Trim(*content)) : std::nullopt;
}

void Store::SetLastReserved(std::size_t range_set, const Ip& address) {
  ReplaceFile(MarkPath(range_set), address.Text());
}

std::string Store::PathOf(const Ip& address) const {
  return folder_ + '/' + address.Text();
}

std::string Store::MarkPath(std::size_t range_set) const {
  return Cat(folder_, "/last_reserved_ip.", range_set);
}

}  // namespace nomad_bridge::ipam
