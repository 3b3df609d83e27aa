#include "plugin/attachment/lease_history.h"

#include <optional>
#include <sstream>
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
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kDirectory)) {
      history.other_data_dirs.insert(line.substr(kDirectory.size()));
      continue;
    }
    std::istringstream words(line);
    std::string address;
    ipam::LeaseOwner owner;
    words >> address >> owner.container_id >> owner.ifname;
    if (const std::optional<Ip> ip = is_own ? Ip::Parse(address) : std::nullopt) {
      history.former.push_back({.address = *ip, .owner = std::move(owner)});
    }
  }
}

// A list that does not say what it is of is another release's, and read by nobody.
void EnsureGoneIfUnused(state::Host& host, const std::string& path) {
  std::istringstream lines(FindOwnFile(path, kMaxBytes).value_or(""));
  std::string network;
  std::string data_dir;
  std::getline(lines, network);
  std::getline(lines, data_dir);
  std::optional<ipam::Store> store;
  if (network.starts_with(kNetwork) && data_dir.starts_with(kDirectory)) {
    network.erase(0, kNetwork.size());
    store = ipam::Store::OpenIfExists(data_dir.substr(kDirectory.size()), network);
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
