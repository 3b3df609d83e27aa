#include "plugin/link/given_gateways.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::link {
namespace {

std::string Directory() {
  return Cat(state::kStateDirectory, "/.gateways");
}

std::string PathOf(const std::string& network) {
  return Cat(Directory(), '/', network);
}

}  // namespace

// `config check` may be run without root.
std::vector<Cidr> GatewaysOf(const std::string& network) try {
  std::vector<Cidr> gateways;
  for (const std::string& line : SplitFields(FindOwnFile(PathOf(network)).value_or(""), "\n")) {
    if (const std::optional<Cidr> gateway = Cidr::Parse(line)) {
      gateways.push_back(*gateway);
    }
  }
  return gateways;
} catch (const Error&) {
  return {};
}

std::string FindNetworkOf(const Cidr& gateway, const std::string& except) {
  for (const std::string& network : Entries(Directory())) {
    if (network != except && Contains(GatewaysOf(network), gateway)) {
      return network;
    }
  }
  return {};
}

void RememberGateways(rtnl::Socket& net, const state::Record& record) {
  const std::set<Ip> present = net.AllAddresses();
  for (const std::string& network : Entries(Directory())) {
    const auto is_there = [&](const Cidr& cidr) { return present.contains(cidr.address); };
    if (std::ranges::none_of(GatewaysOf(network), is_there)) {
      EnsureFileGone(PathOf(network));
    }
  }
  EnsureDirectory(Directory());
  RecreateFile(PathOf(record.id.network), Joined(record.link.gateways, "\n"));
}

}  // namespace nomad_bridge::link
