#include "plugin/attachment/lease_history.h"

#include <optional>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "plugin/attachment/leases.h"

namespace nomad_bridge::attachment {
namespace {

constexpr std::size_t kMaxBytes = 64 << 20;
constexpr std::string_view kNetwork = "of ";  // no address begins so
constexpr std::string_view kDirectory = "in ";

constexpr std::string_view kPrefix = ".leases-";

std::string PrefixOf(const std::string& network) {
  return Cat(kPrefix, Hex(StableHash(network), 16), '-');
}

std::string PathOf(const std::string& network, const std::string& data_dir) {
  return Cat(state::kStateDirectory, '/', PrefixOf(network), Hex(StableHash(data_dir), 16));
}

std::string Describe(state::Host& host,
                     const ipam::Store& store,
                     const std::string& network,
                     const std::string& data_dir) {
  RecordedOwners recorded(host, network);
  std::string text = Cat(kNetwork, network, '\n', kDirectory, data_dir, '\n');
  for (const std::string& each : recorded.DataDirs()) {
    text += Cat(kDirectory, each, '\n');
  }
  for (const ipam::Lease& lease : store.Leases()) {
    if (!recorded.Contains(lease.owner)) {
      text += Format("{} {} {}\n", lease.address, lease.owner.container_id, lease.owner.ifname);
    }
  }
  return text;
}

void Parse(const std::string& text, bool is_own, LeaseHistory& history) {
  for (const std::string& line : SplitFields(text, "\n")) {
    if (line.starts_with(kDirectory)) {
      history.other_data_dirs.insert(line.substr(kDirectory.size()));
      continue;
    }
    std::vector<std::string> words = SplitFields(line, " ");
    words.resize(3);
    if (const std::optional<Ip> ip = is_own ? Ip::Parse(words[0]) : std::nullopt) {
      history.former.push_back(
          {.address = *ip,
           .owner = {.container_id = std::move(words[1]), .ifname = std::move(words[2])}});
    }
  }
}

// A list that does not say what it is of is another release's, and read by nobody.
void EnsureGoneIfUnused(state::Host& host, const std::string& path) {
  const std::vector<std::string> lines =
      SplitFields(FindOwnFile(path, kMaxBytes).value_or(""), "\n");
  if (lines.size() > 1 && lines[0].starts_with(kNetwork) && lines[1].starts_with(kDirectory)) {
    const std::string network = lines[0].substr(kNetwork.size());
    const std::optional<ipam::Store> store =
        ipam::Store::OpenIfExists(lines[1].substr(kDirectory.size()), network);
    if (!host.records.List(network).empty() || (store && !store->Leases().empty())) {
      return;
    }
  }
  EnsureFileGone(path);
}

}  // namespace

LeaseHistory FindLeaseHistory(const std::string& network, const std::string& data_dir) {
  const std::string own = PathOf(network, data_dir);
  LeaseHistory history;
  for (const std::string& name : Entries(state::kStateDirectory)) {
    if (name.starts_with(PrefixOf(network))) {
      const std::string path = Cat(state::kStateDirectory, '/', name);
      Parse(FindOwnFile(path, kMaxBytes).value_or(""), path == own, history);
    }
  }
  history.other_data_dirs.erase(data_dir);
  return history;
}

LeaseHistory EnsureLeaseHistory(state::Host& host,
                                const ipam::Store& store,
                                const std::string& network,
                                const std::string& data_dir) {
  const std::string path = PathOf(network, data_dir);
  if (!FindStatus(path)) {
    EnsureDirectory(state::kStateDirectory);
    static_cast<void>(CreateFile(path, Describe(host, store, network, data_dir)));
  }
  return FindLeaseHistory(network, data_dir);
}

void ForgetLeaseHistories(state::Host& host) {
  for (const std::string& name : Entries(state::kStateDirectory)) {
    if (name.starts_with(kPrefix)) {
      EnsureGoneIfUnused(host, Cat(state::kStateDirectory, '/', name));
    }
  }
}

}  // namespace nomad_bridge::attachment
