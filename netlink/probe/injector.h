// Packets that the kernel takes for received ones, or for this machine's own.
//
// How      A BPF program of four instructions, which BPF_PROG_TEST_RUN runs once with the
//          frame as its input, redirects it to the ingress of a link (bpf_clone_redirect): before
//          tc, and before every netfilter hook. The kernel's own selftests do it so. No device,
//          address or route is made, and nothing is left when this process ends.
// Root     CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN; CAP_NET_RAW for the machine's own packets
// Errors   kKernel: BPF is forbidden (seccomp, lockdown) or the kernel has none
// Source   bpf(2), bpf-helpers(7); linux/bpf.h; raw(7)
#pragma once

#include <cstdint>
#include <vector>

#include "netlink/core/netns.h"
#include "netlink/probe/frame.h"

namespace nomad_bridge::probe {

// Lets `frame`, with its Ethernet header, come in by `link` of `ns`. Returns false if the link
// takes none because it is down. A link without Ethernet headers takes the part behind the frame's
// header.
[[nodiscard]] bool Inject(const netlink::Netns& ns,
                          int link,
                          const std::vector<std::uint8_t>& frame);

// Sends `packet`, of `flow`, from `ns` itself. The kernel answers the answer to a SYN with a reset,
// since no socket waits for it. Returns false if the machine has no route for it.
[[nodiscard]] bool SendOwn(const netlink::Netns& ns,
                           const Flow& flow,
                           const std::vector<std::uint8_t>& packet);

}  // namespace nomad_bridge::probe
