// A stand-in for the CNI plugin tc-redirect-tap, which is built with Go: it makes the same tap,
// filters and result. tests/clients runs the same tests with the real plugin.
#pragma once

namespace nomad_bridge::test {

constexpr const char* kTcRedirectTap = R"sh(#!/bin/sh
set -e
config=$(cat)
inside() {
  nsenter --net="$CNI_NETNS" "$@"
}
case $CNI_COMMAND in
  ADD)
    tap=$(echo "$CNI_ARGS" | tr ';' '\n' | sed -n 's/^TC_REDIRECT_TAP_NAME=//p')
    tap=${tap:-tap0}
    inside ip tuntap add "$tap" mode tap user 0 group 0 vnet_hdr
    inside ip link set "$tap" up
    redirect() {
      inside tc qdisc add dev "$1" ingress
      inside tc filter add dev "$1" parent ffff: protocol all u32 match u32 0 0 \
        action mirred egress redirect dev "$2"
    }
    redirect "$CNI_IFNAME" "$tap"
    redirect "$tap" "$CNI_IFNAME"
    echo "$config" | jq --arg tap "$tap" --arg netns "$CNI_NETNS" --arg id "$CNI_CONTAINERID" '
      .prevResult | (.interfaces | length) as $count |
      .interfaces += [{ name: $tap, sandbox: $netns },
                      { name: $tap, sandbox: $id, mac: .interfaces[2].mac }] |
      .ips += [.ips[] | .interface = $count + 1]'
    ;;
  CHECK)
    inside tc filter show dev "$CNI_IFNAME" ingress | grep -q mirred
    ;;
  DEL)
    inside tc qdisc delete dev "$CNI_IFNAME" ingress || true
    tap=$(echo "$config" | jq -r --arg id "$CNI_CONTAINERID" \
      '.prevResult.interfaces[]? | select(.sandbox == $id) | .name')
    [ -z "$tap" ] || inside ip link delete "$tap"
    ;;
esac
)sh";

}  // namespace nomad_bridge::test
