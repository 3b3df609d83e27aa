// Finds the address that a name has for an allocation.
//
// Asked    /etc/hosts, then the name servers and search domains of /etc/resolv.conf, as glibc does.
//          The files are those of the newest process in the allocation's network namespace: its
//          tasks have files of their own, and its first process is often only a placeholder.
//          Without a process that can be seen, those of the node.
// Sent     real queries, from that namespace; for some seconds at most
// Errors   kKernel
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/causes/in_container.h"

namespace nomad_bridge::causes {

struct Resolution {
  std::optional<Ip> address;
  std::string source;           // who has given the address
  std::vector<Ip> silent = {};  // name servers that have not answered
  FindingList causes = {};      // why there is no address
};

[[nodiscard]] Resolution Resolve(const Inside& inside, const std::string& name);

// Returns the name servers in /etc/resolv.conf of the newest process in the allocation's namespace;
// none if no process there can be seen.
[[nodiscard]] std::vector<Ip> FindNameServers(const Inside& inside);
// Returns those of the node's own /etc/resolv.conf.
[[nodiscard]] std::vector<Ip> FindNameServersOfNode();

// Probes the way from the allocation of `record` to a name server. Returns why the server is not
// reached; empty if it is. `unseen` gets what the probe did not meet (explain.h).
[[nodiscard]] std::optional<Finding> FindLostNameServer(NodeFacts& facts,
                                                        const state::Record& record,
                                                        const Ip& server,
                                                        FindingList& unseen);

}  // namespace nomad_bridge::causes
