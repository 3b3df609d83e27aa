// An IPAM plugin that is not ours (static, dhcp, anybody's), run in our place for one verb.
//
// Found    in the folders of CNI_PATH, in their order: the first regular file named as the plugin
//          is. A plugin's name is no path.
// Runs     in the namespace we are in, which is the host's: we are inside a container only for the
//          length of an InNetns(). (The Go plugins' skeleton refuses to have done its work in the
//          container's.) Its stdin is the bytes that came on ours; its environment ours, CNI_COMMAND
//          replaced. How it is watched over: base/subprocess.h.
// Errors   Its own error is passed on as it is: code, msg, details. Else kInvalidConfig for a name
//          that is none, a plugin that is not there, or this program itself; kInvalidEnvironment
//          without any folder; kIo if it cannot be started; kTryAgain if it does not answer in
//          time; kDelegate if it ends in any other way, or with an answer that is none.
// stderr   What the plugin says there is said by us, too, in every case.
// Source   CNI specification 1.1.0, "Section 4: Plugin Delegation"; Go's pkg/invoke.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "plugin/cni/request.h"
#include "plugin/cni/result.h"

namespace nomad_bridge::cni {

struct Delegate {
  std::string type;      // ipam.type
  std::string cni_path;  // CNI_PATH: folders with ':' between them
  std::string config;    // what came on stdin, byte for byte
  // An address from a DHCP server takes its time; libcni waits for ever.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

// What the plugin answers on stdout. `variables` go on top of our environment: those of another
// attachment than the one we were started for (CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_ARGS).
[[nodiscard]] std::string RunDelegate(const Delegate& delegate,
                                      Verb verb,
                                      const std::map<std::string, std::string>& variables = {});

// What an ADD of it answered, of any version (none: the config's), as a result of today. Has at
// least one address, and no interfaces: which of them an address is for is not IPAM's to say.
[[nodiscard]] Result ParseDelegated(const Delegate& delegate,
                                    std::string_view answer,
                                    std::string_view config_version);

}  // namespace nomad_bridge::cni
