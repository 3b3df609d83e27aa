#include "plugin/state/record_store.h"

#include <cerrno>
#include <exception>

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {
namespace {

constexpr const char* kLockFile = "/run/nomad-bridge/.lock";
constexpr std::string_view kSuffix = ".json";
// A record may contain a config of 8 MiB, of which each byte may become an escape of six bytes.
constexpr std::size_t kMaxRecordBytes = 64 << 20;
constexpr std::uint64_t kRulesByte = 0;

// How much of a container id is kept if it is cut.
constexpr std::size_t kKeptOfId = 150;

// Returns a name of at most 211 bytes. It is readable, and unique even if the container id is cut.
std::string FileName(const AttachmentId& id) {
  constexpr std::size_t kMaxIdBytes = 190;
  const std::string container_id =
      id.container_id.size() <= kMaxIdBytes
          ? id.container_id
          : Cat(id.container_id.substr(0, kKeptOfId), '~', Hex(StableHash(id.container_id), 16));
  return Cat(container_id, '@', id.ifname, kSuffix);
}

// Reverses FileName(), except that a cut container id stays cut. Returns nullopt for a file that is
// not ours.
std::optional<AttachmentId> ParseFileName(const std::string& network, const std::string& name) {
  const std::size_t at = name.find('@');  // never part of a container id
  if (at == std::string::npos || !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const std::size_t end = name.size() - kSuffix.size();
  return AttachmentId{network, name.substr(0, at), name.substr(at + 1, end - at - 1)};
}

std::string PathIn(const std::string& network, const std::string& name) {
  return Cat(kStateDirectory, '/', network, '/', name);
}

std::string PathOf(const AttachmentId& id) {
  return PathIn(id.network, FileName(id));
}

std::optional<std::string> FindRecordText(const std::string& path) {
  return FindOwnFile(path, kMaxRecordBytes);
}

// Returns the byte of the lock file: odd for attachments, even for pools, and never the byte of the
// rules. It is the same in every release, because releases share the lock file.
std::uint64_t LockByte(const AttachmentId& id) {
  return StableHash(Cat(id.network, '/', id.container_id, '@', id.ifname)) | 1;
}

std::uint64_t PoolByte(const std::string& network) {
  return (StableHash(network) | 2) & ~std::uint64_t{1};
}

}  // namespace

const StoredRecord& Records::Parse(const std::string& path, const std::string& text) const {
  const auto known = parsed_.find(path);
  if (known != parsed_.end() && known->second.text == text) {
    return known->second.stored;
  }
  StoredRecord stored = ParseRecord(text);
  // A copy of another attachment's record counts as damaged, too: a command that followed it would
  // remove what the other attachment has.
  if (PathOf(stored.record.id) != path) {
    throw std::invalid_argument(Format("it is the record of container '{}' of network '{}'",
                                       stored.record.id.container_id,
                                       stored.record.id.network));
  }
  return parsed_.insert_or_assign(path, Parsed{text, std::move(stored)}).first->second.stored;
}

std::optional<Record> Records::Find(const AttachmentId& id) const {
  try {
    return FindOwn(id);
  } catch (const Error& error) {
    Log(id, Cat("ignoring a record: ", error.what()));
    return std::nullopt;
  }
}

std::optional<Record> Records::FindOwn(const AttachmentId& id) const {
  const std::string path = PathOf(id);
  const std::optional<std::string> text = FindRecordText(path);
  if (!text) {
    return std::nullopt;
  }
  try {
    const StoredRecord& stored = Parse(path, *text);
    return stored.origin == here_ ? std::optional(stored.record) : std::nullopt;
  } catch (const std::exception& error) {
    Log(id, Format("cannot read the record '{}', ignoring it: {}", path, error.what()));
    return std::nullopt;
  }
}

void Records::Log(const AttachmentId& id, const std::string& what) const {
  if (logged_.insert(id).second) {
    LogLine("{}", what);
  }
}

void Records::Write(const Record& record) const {
  // Only host-local may be called without a namespace.
  if (record.netns == netlink::NetnsId{}) {
    return;
  }
  if (record.is_of_newer_release) {
    throw Error(Code::kConflict,
                Format("the record of container '{}' in network '{}' is of a newer release: "
                       "it is not written again",
                       record.id.container_id,
                       record.id.network));
  }
  const std::string directory = Cat(kStateDirectory, '/', record.id.network);
  const std::string text = FormatRecord(record, here_);
  const std::string path = PathOf(record.id);
  for (;;) {
    EnsureDirectory(directory);
    const std::optional<struct stat> before = FindStatus(directory);
    try {
      // The first record of an attachment is created, which leaves nothing behind if we are killed.
      // Replacing a record may leave a ".new" file, which EnsureGone() removes with the record.
      const bool may_be_first = record.IsAny(Phase::kMaking) && !parsed_.contains(path);
      if (!may_be_first || !CreateFile(path, text)) {
        ReplaceFile(path, text);
      }
      break;
    } catch (const Error&) {
      // Tries once more if the DEL of the network's last attachment has removed the directory
      // meanwhile.
      const std::optional<struct stat> after = FindStatus(directory);
      if (before && after && before->st_ino == after->st_ino) {
        throw;
      }
    }
  }
  parsed_.insert_or_assign(path, Parsed{text, {.record = record, .origin = here_}});
}

void Records::Update(const std::function<bool(Record&)>& change) const {
  for (const AttachmentId& id : List("")) {
    const std::optional<FileLock> lock = TryLock(id);
    std::optional<Record> record = lock ? Find(id) : std::nullopt;
    if (record && !record->is_of_newer_release && change(*record)) {
      Write(*record);
    }
  }
}

bool Records::IsAsWritten(const Record& record) const {
  return record.netns == netlink::NetnsId{} ||
         FindRecordText(PathOf(record.id)) == FormatRecord(record, here_);
}

void Records::EnsureGone(const AttachmentId& id) const {
  const std::string path = PathOf(id);
  // Removes the ".new" file first: if this process is killed in between, the record can still be
  // found.
  EnsureFileGone(path + ".new");
  EnsureFileGone(path);
  parsed_.erase(path);
  // rmdir fails while there are other records.
  static_cast<void>(::rmdir(Cat(kStateDirectory, '/', id.network).c_str()));
}

bool Records::IsVoid(const AttachmentId& id) const {
  const std::string path = PathOf(id);
  const std::optional<std::string> text = FindRecordText(path);
  try {
    return text && Parse(path, *text).origin.boot_id != here_.boot_id;
  } catch (const std::exception&) {
    return true;
  }
}

void Records::EnsureVoidGone(const AttachmentId& id) const {
  // A ".new" file may be left even if the record is missing.
  if (!FindStatus(PathOf(id)) || IsVoid(id)) {
    EnsureGone(id);
  }
}

bool Records::Has(const AttachmentId& id) const {
  return FindStatus(PathOf(id)).has_value();
}

bool Records::HasNetwork(const std::string& network) const {
  // EnsureGone() removes the directory with the last record.
  return FindStatus(Cat(kStateDirectory, '/', network)).has_value();
}

std::optional<AttachmentId> Records::FindId(const std::string& network,
                                            const std::string& name) const {
  std::optional<AttachmentId> id = ParseFileName(network, name);
  if (!id || id->container_id.find('~') == std::string::npos) {
    return id;
  }
  // Only the content of the file has the whole of a cut container id.
  const std::string path = PathIn(network, name);
  try {
    const std::optional<std::string> text = FindRecordText(path);
    return text ? std::optional(Parse(path, *text).record.id) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // damaged
  }
}

std::vector<std::string> Records::Networks() {
  std::vector<std::string> names = Entries(kStateDirectory);
  // A dot begins no network's name: .lock, .counts
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

std::vector<AttachmentId> Records::List(const std::string& network) const {
  std::vector<AttachmentId> found;
  if (network.empty()) {
    for (const std::string& name : Networks()) {
      Append(found, List(name));
    }
    return found;
  }
  for (const std::string& name : Entries(Cat(kStateDirectory, '/', network))) {
    if (std::optional<AttachmentId> id = FindId(network, name)) {
      found.push_back(*std::move(id));
    }
  }
  return found;
}

std::vector<AttachmentId> Records::SiblingsOf(const AttachmentId& id) const {
  std::vector<AttachmentId> siblings;
  const std::string prefix = id.container_id.substr(0, kKeptOfId);
  for (const std::string& network : Networks()) {
    ForEachEntryUntil(Cat(kStateDirectory, '/', network), [&](std::string_view name) {
      std::optional<AttachmentId> other =
          name.starts_with(prefix) ? FindId(network, std::string(name)) : std::nullopt;
      if (other && other->container_id == id.container_id && *other != id) {
        siblings.push_back(*std::move(other));
      }
      return false;
    });
  }
  return siblings;
}

std::vector<Record> Records::OnePerNetwork(
    const std::function<bool(const Record&)>& is_wanted) const {
  std::vector<Record> found;
  for (const std::string& network : Networks()) {
    ForEachEntryUntil(Cat(kStateDirectory, '/', network), [&](std::string_view name) {
      const std::optional<AttachmentId> id = FindId(network, std::string(name));
      std::optional<Record> record = id ? Find(*id) : std::nullopt;
      const bool is_found = record && is_wanted(*record);
      if (is_found) {
        found.push_back(*std::move(record));
      }
      return is_found;
    });
  }
  return found;
}

std::vector<Record> Records::All() const {
  std::vector<Record> all;
  for (const AttachmentId& id : List("")) {
    if (std::optional<Record> record = Find(id)) {
      all.push_back(*std::move(record));
    }
  }
  return all;
}

std::optional<Record> Records::FindNeighbour(const AttachmentId& id) const {
  std::optional<Record> neighbour;
  ForEachEntryUntil(Cat(kStateDirectory, '/', id.network), [&](std::string_view name) {
    const std::optional<AttachmentId> other = FindId(id.network, std::string(name));
    neighbour = other && *other != id ? Find(*other) : std::nullopt;
    return neighbour.has_value();
  });
  return neighbour;
}

std::vector<Records::Reading> Records::ReadAll() const {
  std::vector<Reading> readings;
  for (const std::string& network : Entries(kStateDirectory)) {
    for (const std::string& name : Entries(Cat(kStateDirectory, '/', network))) {
      std::optional<AttachmentId> id = ParseFileName(network, name);
      Reading reading{.path = PathIn(network, name), .id = id.value_or(AttachmentId())};
      if (id && Read(reading)) {
        readings.push_back(std::move(reading));
      }
    }
  }
  return readings;
}

bool Records::Read(Reading& reading) const {
  try {
    const std::optional<std::string> text = FindRecordText(reading.path);
    if (!text) {
      return false;  // removed meanwhile
    }
    const StoredRecord& stored = Parse(reading.path, *text);
    reading.id = stored.record.id;
    reading.record = stored.record;
    return stored.origin == here_;
  } catch (const std::exception& error) {
    reading.problem = error.what();
    reading.is_denied = ::access(reading.path.c_str(), R_OK) != 0 && errno == EACCES;
    return true;
  }
}

std::optional<Record> Records::FindOwner(std::string_view owner) const {
  for (const AttachmentId& id : List("")) {
    if (HostVethName(id) == owner) {
      return Find(id);
    }
  }
  return std::nullopt;
}

FileLock Records::Lock(const AttachmentId& id) const {
  EnsureDirectory(kStateDirectory);
  return FileLock::Take(kLockFile,
                        LockByte(id),
                        LockKind::kAttachment,
                        Format("interface '{}' of container '{}'", id.ifname, id.container_id));
}

std::optional<FileLock> Records::TryLock(const AttachmentId& id) const {
  EnsureDirectory(kStateDirectory);
  return FileLock::TryTake(kLockFile, LockByte(id), LockKind::kAttachment);
}

FileLock Records::LockPool(const std::string& network) const {
  EnsureDirectory(kStateDirectory);
  return FileLock::Take(kLockFile,
                        PoolByte(network),
                        LockKind::kPool,
                        Format("the full pool of network '{}'", network));
}

FileLock Records::LockRules() const {
  EnsureDirectory(kStateDirectory);
  return FileLock::Take(kLockFile, kRulesByte, LockKind::kRules, "the node's rules");
}

Finding LostRecord(const AttachmentId& id) {
  return {Finding::Area::kRecord,
          id.container_id,
          Format("container '{}' has no readable record", id.container_id)};
}

}  // namespace nomad_bridge::state
