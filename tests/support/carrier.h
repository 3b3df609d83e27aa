// A python3 program that carries frames as a virtual machine does with its tap, or a sandbox with
// its socket.
#pragma once

namespace nomad_bridge::test {

// Carries frames between an interface in one namespace and a tap in another namespace, whose IP
// stack stands for the sandbox or the virtual machine. Arguments: namespace path and interface name
// of one end, then of the other. Each frame keeps its virtio header, which names the checksum that
// is still to be filled in.
constexpr const char* kCarrier = R"(
import ctypes, fcntl, os, select, socket, struct, sys

def enter(path):
    with open(path) as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0

def open_tap(name):
    tap = os.open('/dev/net/tun', os.O_RDWR)
    flags = 0x5002  # IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tap, 0x400454ca, struct.pack('16sH22x', name.encode(), flags))  # TUNSETIFF
    return tap

def open_packet(name):
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packet.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR
    packet.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    packet.bind((name, 3))  # ETH_P_ALL
    return packet.detach()

enter(sys.argv[1])
one = open_tap(sys.argv[2]) if sys.argv[2].startswith('tap') else open_packet(sys.argv[2])
enter(sys.argv[3])
other = open_tap(sys.argv[4])
print('carrying', flush=True)
while True:
    for ready in select.select([one, other], [], [])[0]:
        frame = os.read(ready, 70000)
        try:
            os.write(other if ready == one else one, frame)
        except OSError:
            pass  # the other end is not up yet
)";

}  // namespace nomad_bridge::test
