#include "netlink/probe/injector.h"

#include <array>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace nomad_bridge::probe {
namespace {

using Program = std::array<bpf_insn, 4>;

// The program's argument, the packet, is already in r1. The program returns the helper's result: 0,
// or an error if the link did not accept the packet.
Program RedirectTo(int link) {
  const auto set = [](std::uint8_t number, std::int32_t value) {
    constexpr std::uint8_t kField = 0xf;  // a register field has four bits
    return bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K,
                    .dst_reg = static_cast<std::uint8_t>(number & kField),
                    .src_reg = 0,
                    .off = 0,
                    .imm = value};
  };
  const auto jump = [](std::uint8_t how, std::int32_t value) {
    return bpf_insn{.code = static_cast<std::uint8_t>(BPF_JMP | how),
                    .dst_reg = 0,
                    .src_reg = 0,
                    .off = 0,
                    .imm = value};
  };
  return {set(BPF_REG_2, link),
          set(BPF_REG_3, BPF_F_INGRESS),
          jump(BPF_CALL, BPF_FUNC_clone_redirect),
          jump(BPF_EXIT, 0)};
}

std::uint64_t AddressOf(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

long CallBpf(int command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

UniqueFd Load(const Program& program) {
  static constexpr std::string_view kLicence = "GPL";  // it allows every helper
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
  attributes.insns = AddressOf(program.data());
  attributes.license = AddressOf(kLicence.data());
  UniqueFd loaded(static_cast<int>(CallBpf(BPF_PROG_LOAD, attributes)));
  if (!loaded) {
    throw ErrnoError(Code::kKernel, "cannot load the BPF program that sends a probe");
  }
  return loaded;
}

std::uint32_t Run(const UniqueFd& program, const std::vector<std::uint8_t>& frame) {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.test.prog_fd = static_cast<std::uint32_t>(program.get());
  attributes.test.data_in = AddressOf(frame.data());
  attributes.test.data_size_in = static_cast<std::uint32_t>(frame.size());
  attributes.test.repeat = 1;
  if (CallBpf(BPF_PROG_TEST_RUN, attributes) != 0) {
    throw ErrnoError(Code::kKernel, "cannot run the BPF program that sends a probe");
  }
  return attributes.test.retval;
}

// The sockaddr of `address`. It needs no port, because the packets bring their own header.
struct SocketAddress {
  explicit SocketAddress(const Ip& address) {
    if (address.is_ipv4()) {
      ipv4.sin_family = AF_INET;
      std::memcpy(&ipv4.sin_addr, address.bytes().data(), address.bytes().size());
    } else {
      ipv6.sin6_family = AF_INET6;
      std::memcpy(&ipv6.sin6_addr, address.bytes().data(), address.bytes().size());
    }
  }

  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6 = {};
  };
};

}  // namespace

bool Inject(const netlink::Netns& ns, int link, const std::vector<std::uint8_t>& frame) {
  const UniqueFd program = Load(RedirectTo(link));
  std::uint32_t result = 0;
  netlink::InNetns(ns, [&] { result = Run(program, frame); });
  return result == 0;
}

bool SendOwn(const netlink::Netns& ns, const Flow& flow, const std::vector<std::uint8_t>& packet) {
  const int family = flow.source.is_ipv4() ? AF_INET : AF_INET6;
  UniqueFd socket;
  netlink::InNetns(
      ns, [&] { socket = UniqueFd(::socket(family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)); });
  if (!socket) {
    throw ErrnoError(Code::kKernel, "cannot open a raw socket to send a probe from");
  }
  const SocketAddress to(flow.destination);
  return ::sendto(socket.get(), packet.data(), packet.size(), 0, &to.any, sizeof to) ==
         static_cast<ssize_t>(packet.size());
}

}  // namespace nomad_bridge::probe
