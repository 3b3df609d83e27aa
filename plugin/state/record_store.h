// Stores records, one file per attachment, and the checkpoint; holds the locks of commands.
//
// Shape   /run/nomad-bridge/<network>/<container>@<ifname>.json, one JSON object (state_json.h). A
//         container id of more than 190 bytes is cut and followed by '~' and a hash.
//         /run/nomad-bridge/.lock         locked by byte: 0 for the rules, odd ones for one
//                                         attachment each, even ones for a network's full pool
//         (a network's name never begins with a dot)
// Lives   on tmpfs. A record of another boot is void: its namespaces and rules are gone. A record
//         of another network namespace (a second "host" that shares /run) belongs to somebody else.
// Locks   base/file_lock.h states their order. A record is written and removed under its
//         attachment's lock; reading takes no lock, since files appear whole.
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

// Returns a hash of the id's three names. The same in every release, because releases share the
// lock file.
[[nodiscard]] std::uint64_t HashOf(const AttachmentId& id);

class Records {
 public:
  // Accesses the records of `here`: this boot and host namespace.
  explicit Records(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Record> Find(const AttachmentId& id) const;
  // Does the same for the command's own attachment, but throws kIo if the file cannot be read,
  // rather than go on as if there were no record. A damaged record still counts as absent.
  [[nodiscard]] std::optional<Record> FindOwn(const AttachmentId& id) const;
  // Does nothing if record.netns is unknown: nobody could find out whether the attachment is alive.
  // Throws kConflict if a newer release wrote the record's file.
  void Write(const Record& record) const;
  // Writes every record for which `change` returns true. Leaves a record that another command works
  // on to that command and to the next reconcile, and a newer release's record as it is.
  void Update(const std::function<bool(Record&)>& change) const;
  // Returns whether nobody has changed the record's file since `record` was written.
  [[nodiscard]] bool IsAsWritten(const Record& record) const;
  // Removes the record, and with the last record of a network its directory.
  void EnsureGone(const AttachmentId& id) const;
  // Returns whether the record is of another boot, or damaged: it says nothing of a present
  // attachment.
  [[nodiscard]] bool IsVoid(const AttachmentId& id) const;
  // Like EnsureGone(), but leaves a record that is not void.
  void EnsureVoidGone(const AttachmentId& id) const;

  // Returns every attachment with a record, from the listing of the directory; in all networks if
  // `network` is empty.
  [[nodiscard]] std::vector<AttachmentId> List(const std::string& network) const;
  // Returns every record that can be read.
  [[nodiscard]] std::vector<Record> All() const;
  // Returns the first other record found in the network of `id`, at a cost that does not depend on
  // how many there are.
  [[nodiscard]] std::optional<Record> FindNeighbour(const AttachmentId& id) const;
  // Reads all records of this boot and host namespace for people, including unreadable ones.
  struct Reading {
    std::string path;
    AttachmentId id;  // of an unreadable record: as far as the file's name tells
    std::optional<Record> record;
    std::string problem;     // why there is no record
    bool is_denied = false;  // because we are not root
  };
  [[nodiscard]] std::vector<Reading> ReadAll() const;
  // Finds the attachment by its host veth, which owns its elements.
  [[nodiscard]] std::optional<Record> FindOwner(std::string_view owner) const;

  // Waits for the lock: one command at a time per attachment.
  [[nodiscard]] FileLock Lock(const AttachmentId& id) const;
  // Returns nullopt if another command holds the lock.
  [[nodiscard]] std::optional<FileLock> TryLock(const AttachmentId& id) const;
  // Waits for the lock of a full pool: one command at a time takes back what is stale in `network`.
  // The other commands then find free addresses, rather than each other's locks.
  [[nodiscard]] FileLock LockPool(const std::string& network) const;
  // Waits for the lock of the rules. The kernel commits atomically anyway; the lock keeps many
  // concurrent ADDs from making each other start over.
  [[nodiscard]] FileLock LockRules() const;

  // Logs what is wrong with a record, once, however often a command reads it.
  void Log(const AttachmentId& id, const std::string& what) const;

 private:
  // Returns false if the record is gone, or belongs to somebody else.
  [[nodiscard]] bool Read(Reading& reading) const;
  // Returns the id that the file `name` stands for; nullopt if the file is no record.
  [[nodiscard]] std::optional<AttachmentId> FindId(const std::string& network,
                                                   const std::string& name) const;

  // Returns the content of `text`, read from `path`; throws if it is damaged.
  [[nodiscard]] const StoredRecord& Parse(const std::string& path, const std::string& text) const;

  Origin here_;
  mutable std::set<AttachmentId> logged_;
  // What was last read or written, by path: a command asks several times, and parsing takes ten
  // times as long as reading.
  struct Parsed {
    std::string text;
    StoredRecord stored;
  };
  mutable std::map<std::string, Parsed> parsed_;
};

// Returns the mismatch that a live attachment's record is missing or damaged.
[[nodiscard]] Mismatch LostRecord(const AttachmentId& id);

class CheckpointFile {
 public:
  explicit CheckpointFile(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Checkpoint> Find();
  void Write(const Checkpoint& checkpoint) const;

 private:
  Origin here_;
  // The text read last and its content: a command asks several times, and parsing takes ten times
  // as long as reading.
  std::string text_;
  std::optional<Checkpoint> found_;
};

}  // namespace nomad_bridge::state
