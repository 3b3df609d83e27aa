// Records on disk, one file per attachment, the locks of commands that work on one, and the
// checkpoint.
//
// Shape   /run/nomad-bridge/<network>/<container>@<ifname>.json, one JSON object (state_json.h). A
//         container id of more than 190 bytes is cut and followed by '~' and a hash.
//         /run/nomad-bridge/.lock         locked by byte: 0 for the rules, odd ones for one
//                                         attachment each, even ones for a network's full pool
//         (a network's name never begins with a dot)
// Lives   on tmpfs. A record of another boot is void: its namespaces and rules are gone. One of
//         another network namespace (a second "host" that shares /run) is somebody else's.
// Locks   Their order stands in base/file_lock.h. A record is written and removed under its
//         attachment's lock; reading takes none, since files appear whole.
// Errors  kIo; kConflict from Write(); kTryAgain if a lock stays taken. A record that cannot be
//         read counts as absent and is logged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "base/file_lock.h"
#include "base/mismatch.h"
#include "plugin/state/checkpoint.h"
#include "plugin/state/record.h"
#include "plugin/state/state_json.h"

namespace nomad_bridge::state {

// Of its three names. The same in every release: lock files are shared with others.
[[nodiscard]] std::uint64_t HashOf(const AttachmentId& id);

class Records {
 public:
  // Those of `here`: this boot, this host namespace.
  explicit Records(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Record> Find(const AttachmentId& id) const;
  // The same for the attachment that a command is about: throws kIo if the file cannot be read,
  // rather than go on as if there were none. One that is damaged still counts as absent.
  [[nodiscard]] std::optional<Record> FindOwn(const AttachmentId& id) const;
  // Does nothing if record.netns is unknown: it could not be told whether the attachment is alive.
  // Throws kConflict if it was read from a file that a newer release wrote.
  void Write(const Record& record) const;
  // Writes every record that `change` changes, which says whether it did. One that another command
  // works on is left to that, and to the next reconcile; one of a newer release stays as it is.
  void Update(const std::function<bool(Record&)>& change) const;
  // Whether nobody has changed it since it was written so.
  [[nodiscard]] bool IsAsWritten(const Record& record) const;
  // The directory of its network goes with the last record.
  void EnsureGone(const AttachmentId& id) const;
  // Whether it is of another boot, or damaged: it says nothing of an attachment that is here.
  [[nodiscard]] bool IsVoid(const AttachmentId& id) const;
  // As EnsureGone(), but not for a record that is not void.
  void EnsureVoidGone(const AttachmentId& id) const;

  // Every attachment with a record, from the listing of the directory; `network` empty: in all
  // networks.
  [[nodiscard]] std::vector<AttachmentId> List(const std::string& network) const;
  // Every record that can be read.
  [[nodiscard]] std::vector<Record> All() const;
  // The first other one of its network that is found, at a cost that does not grow with them.
  [[nodiscard]] std::optional<Record> FindNeighbour(const AttachmentId& id) const;
  // All of this boot and host namespace, for people: also those that cannot be read.
  struct Reading {
    std::string path;
    AttachmentId id;  // of an unreadable one as far as its name tells
    std::optional<Record> record;
    std::string problem;     // why there is no record
    bool is_denied = false;  // to us: we are not root
  };
  [[nodiscard]] std::vector<Reading> ReadAll() const;
  // The attachment whose host veth, the owner of its elements, is `owner`.
  [[nodiscard]] std::optional<Record> FindOwner(std::string_view owner) const;

  // One command at a time per attachment.
  [[nodiscard]] FileLock Lock(const AttachmentId& id) const;
  // nullopt if another command works on it now.
  [[nodiscard]] std::optional<FileLock> TryLock(const AttachmentId& id) const;
  // One command at a time that takes back what is stale because the pool of `network` is full:
  // others find what that one has freed, rather than each other's locks.
  [[nodiscard]] FileLock LockPool(const std::string& network) const;
  // One command at a time in the rules. The kernel commits atomically anyway; this spares many ADDs
  // at once from making each other start over.
  [[nodiscard]] FileLock LockRules() const;

  // What is wrong with a record: once, however often a command reads it.
  void Log(const AttachmentId& id, const std::string& what) const;

 private:
  // False if it is gone, or somebody else's.
  [[nodiscard]] bool Read(Reading& reading) const;
  // Of the file `name`; nullopt if it is no record's.
  [[nodiscard]] std::optional<AttachmentId> FindId(const std::string& network,
                                                   const std::string& name) const;

  // What `text`, that of the file at `path`, says; throws if it is damaged.
  [[nodiscard]] const StoredRecord& Parse(const std::string& path, const std::string& text) const;

  Origin here_;
  mutable std::set<AttachmentId> logged_;
  // By path, what was read or written last: a command asks several times, and parsing takes ten
  // times as long as reading.
  struct Parsed {
    std::string text;
    StoredRecord stored;
  };
  mutable std::map<std::string, Parsed> parsed_;
};

// That a live attachment's record is missing, or damaged.
[[nodiscard]] Mismatch LostRecord(const AttachmentId& id);

class CheckpointFile {
 public:
  explicit CheckpointFile(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Checkpoint> Find();
  void Write(const Checkpoint& checkpoint) const;

 private:
  Origin here_;
  // What was read last, and what it says: a command asks several times, and parsing takes ten times
  // as long as reading.
  std::string text_;
  std::optional<Checkpoint> found_;
};

}  // namespace nomad_bridge::state
