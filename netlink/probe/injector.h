// Injects packets as if a link had received them, or sends packets as this machine's own.
//
// How      BPF_PROG_TEST_RUN runs a BPF program of four instructions once, with the frame as its
//          input. The program redirects the frame to the ingress of a link (bpf_clone_redirect),
//          before tc and before every netfilter hook. The kernel's own selftests use the same
//          method. No device, address or route is created, and nothing is left when this process
//          ends.
// Root     CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN; CAP_NET_RAW for the machine's own packets
// Errors   kKernel: BPF is forbidden (seccomp, lockdown) or the kernel has none
// Source   bpf(2), bpf-helpers(7); linux/bpf.h; raw(7)
#pragma once

#include <cstdint>
#include <vector>

#include "netlink/core/netns.h"
#include "netlink/probe/frame.h"

namespace nomad_bridge::probe {

// Makes `link` of `ns` receive `frame`, which has an Ethernet header. Returns false if the link is
// down. A link without Ethernet headers receives the part behind the frame's header.
[[nodiscard]] bool Inject(const netlink::Netns& ns,
                          int link,
                          const std::vector<std::uint8_t>& frame);

// Sends `packet`, a packet of `flow`, from `ns` itself. If `packet` is a SYN and somebody answers
// it, the kernel sends a reset, since no socket waits for the answer. Returns false if the machine
// has no route for `packet`.
[[nodiscard]] bool SendOwn(const netlink::Netns& ns,
                           const Flow& flow,
                           const std::vector<std::uint8_t>& packet);

}  // namespace nomad_bridge::probe
