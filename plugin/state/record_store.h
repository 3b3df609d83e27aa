// Stores records, one file per attachment; holds the locks of commands.
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
#include "base/finding.h"
#include "plugin/state/record.h"
#include "plugin/state/state_json.h"

namespace nomad_bridge::state {

class Records {
 public:
  // Accesses the records of `here`: this boot and host namespace.
  explicit Records(Origin here) : here_(std::move(here)) {}

  [[nodiscard]] std::optional<Record> Find(const AttachmentId& id) const;
  // Finds the record of the command's own attachment. Throws kIo if the file cannot be read, rather
  // than go on as if there were no record. A damaged record still counts as absent.
  [[nodiscard]] std::optional<Record> FindOwn(const AttachmentId& id) const;
  // Writes the record. Does nothing if record.netns is unknown: nobody could find out whether the
  // attachment is alive. Throws kConflict if a newer release wrote the record's file.
  void Write(const Record& record) const;
  // Writes every record for which `change` returns true. Skips a newer release's record, and a
  // record that another command works on: that command, or the next reconcile, changes it.
  void Update(const std::function<bool(Record&)>& change) const;
  // Returns whether nobody has changed the record's file since `record` was written.
  [[nodiscard]] bool IsAsWritten(const Record& record) const;
  // Removes the record. With the last record of a network, removes the network's directory, too.
  void EnsureGone(const AttachmentId& id) const;
  // Returns whether the record is of another boot, or damaged: it says nothing of a present
  // attachment.
  [[nodiscard]] bool IsVoid(const AttachmentId& id) const;
  // Removes the record if it is void.
  void EnsureVoidGone(const AttachmentId& id) const;

  // Returns whether there is a file for the record, whatever is in it.
  [[nodiscard]] bool Has(const AttachmentId& id) const;
  // Returns whether any attachment of `network` has a record.
  [[nodiscard]] bool HasNetwork(const std::string& network) const;

  // Returns all attachments with a record, by the names of the files. If `network` is empty,
  // returns those of all networks.
  [[nodiscard]] std::vector<AttachmentId> List(const std::string& network) const;
  // Returns the other attachments with a record of the same container: in another network, or under
  // another interface name. Reads the names of all files.
  [[nodiscard]] std::vector<AttachmentId> SiblingsOf(const AttachmentId& id) const;
  // Returns for each network the first record found for which `is_wanted` returns true.
  [[nodiscard]] std::vector<Record> OnePerNetwork(
      const std::function<bool(const Record&)>& is_wanted) const;
  // Returns every record that can be read.
  [[nodiscard]] std::vector<Record> All() const;
  // Returns any other record in the network of `id`. The cost does not depend on the number of
  // records.
  [[nodiscard]] std::optional<Record> FindNeighbour(const AttachmentId& id) const;
  // Reads all records of this boot and host namespace for people, including unreadable ones.
  struct Reading {
    std::string path;
    AttachmentId id;  // if unreadable: as far as the file's name has it
    std::optional<Record> record;
    std::string problem;     // why there is no record
    bool is_denied = false;  // because we are not root
  };
  [[nodiscard]] std::vector<Reading> ReadAll() const;
  // Returns the record of the attachment with the host veth `owner`, which owns its elements.
  [[nodiscard]] std::optional<Record> FindOwner(std::string_view owner) const;

  // Waits for the lock of the attachment: only one command at a time works on it.
  [[nodiscard]] FileLock Lock(const AttachmentId& id) const;
  // Returns nullopt if another command holds the lock.
  [[nodiscard]] std::optional<FileLock> TryLock(const AttachmentId& id) const;
  // Waits for the lock of a full pool: only one command at a time takes back stale addresses of
  // `network`. The other commands then find free addresses, rather than each other's locks.
  [[nodiscard]] FileLock LockPool(const std::string& network) const;
  // Waits for the lock of the rules. The kernel commits atomically anyway; the lock keeps many
  // concurrent ADDs from making each other start over.
  [[nodiscard]] FileLock LockRules() const;

  // Logs what is wrong with a record, but only once, however often a command reads the record.
  void Log(const AttachmentId& id, const std::string& what) const;

 private:
  // Returns the names of the directories of networks.
  [[nodiscard]] static std::vector<std::string> Networks();
  // Returns false if the record is gone, or belongs to somebody else.
  [[nodiscard]] bool Read(Reading& reading) const;
  // Returns the id that the file `name` stands for; nullopt if the file is no record.
  [[nodiscard]] std::optional<AttachmentId> FindId(const std::string& network,
                                                   const std::string& name) const;

  // Returns the content of `text`, read from `path`; throws if it is damaged.
  [[nodiscard]] const StoredRecord& Parse(const std::string& path, const std::string& text) const;

  Origin here_;
  mutable std::set<AttachmentId> logged_;
  // The texts last read or written, by path, with their content: a command reads a record several
  // times, and parsing takes ten times as long as reading.
  struct Parsed {
    std::string text;
    StoredRecord stored;
  };
  mutable std::map<std::string, Parsed> parsed_;
};

// Returns the finding for a live attachment whose record is missing or damaged.
[[nodiscard]] Finding LostRecord(const AttachmentId& id);

}  // namespace nomad_bridge::state
