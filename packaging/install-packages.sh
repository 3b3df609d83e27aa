#!/bin/sh
# Installs on Debian what is missing for a purpose, and nothing else.
#
# Usage: packaging/install-packages.sh PURPOSE ...         (root)
#        packaging/install-packages.sh --list PURPOSE      (only prints the packages)
# PURPOSE  build      the compiler and four libraries
#          test       what the tests need beside it
#          style      clang-format and clang-tidy of the version that the sources are written with;
#                     Debian 12 only
#          fuzz       the compiler of the fuzz targets
#          vm         what tests/with-kernel boots other kernels with
#          container  what tests/in-container runs the tests in
#          demo       what demo.sh needs
#          root       what packaging/debian-root makes root file systems with
#          go         what packaging/build-go-tool downloads with
#          systemd    what tests/with-systemd has in its root, beside our own files
#          rpm        what tests/packages installs the rpm with
#          release    what packaging/build-release builds and checks with; Debian 13 only
# Debian   12 and 13
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

packages() {
  case $1 in
    build)
      echo g++ cmake ninja-build pkg-config
      echo libnl-3-dev libmnl-dev libnftnl-dev nlohmann-json3-dev ;;
    test)
      packages build
      echo libgtest-dev libgmock-dev ccache
      # The tests read back with other tools, and try the leases against the reference host-local.
      echo iproute2 nftables iptables conntrack iputils-ping kmod strace python3 containernetworking-plugins
      echo jq ca-certificates
      # Documents, as they are typed.
      echo curl
      # What reads the metrics.
      echo prometheus prometheus-node-exporter
      # The schemas of -json.
      echo python3-jsonschema
      # Shows the man page.
      echo groff-base
      # Firewalls of others that really run, and a DHCP server.
      echo docker.io ufw firewalld dbus dnsmasq-base
      # Real clients, and what they run containers with. Go for cnitool comes as
      # tests/clients/build-cnitool says.
      echo podman containerd crun busybox-static ;;
    style)
      echo clang-14 clang-format-14 clang-tidy-14 ;;
    fuzz)
      # Of the release's own clang, so that its version is known.
      case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
        bookworm) echo clang-14 libclang-rt-14-dev ;;
        *) echo clang-19 libclang-rt-19-dev ;;
      esac ;;
    vm)
      echo qemu-system-x86 kmod busybox-static python3-venv file ;;
    container)
      echo debootstrap podman runc ;;
    demo)
      packages build
      echo iproute2 nftables curl python3 jq ;;
    root)
      echo debootstrap ;;
    go)
      echo ca-certificates ;;
    systemd)
      echo systemd dbus kmod procps iproute2 nftables iptables firewalld python3 rpm
      echo libnl-3-200 libmnl0 libnftnl11
      # What runs the role of examples/ansible.
      echo ansible-core python3-apt ;;
    rpm)
      echo rpm dnf ;;
    release)
      packages build
      echo ccache lintian qemu-user
      echo g++-aarch64-linux-gnu libnl-3-dev:arm64 libmnl-dev:arm64 libnftnl-dev:arm64 ;;
    *)
      echo "no purpose '$1': build, test, style, fuzz, vm, container, demo, root, go, systemd, rpm or release" >&2
      exit 2 ;;
  esac
}

is_installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if [ "${1:-}" = --list ]; then
  packages "$2" | tr ' ' '\n'
  exit 0
fi

missing=
for purpose in "$@"; do
  for package in $(packages "$purpose"); do
    is_installed "$package" || missing="$missing $package"
  done
done
[ -n "$missing" ] || exit 0

# What apt-get is at: how much it will fetch, and on a terminal each package, in one line.
progress() {
  sed -u -n 's/^Need to get \(.*\) of archives\.$/Fetching \1/p
    s/^Get:[0-9]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .*/fetching \1/p; s/^Setting up \([^ ]*\) .*/setting up \1/p' |
    while read -r step; do
      case $step in
        F*) echo "   $step" ;;
        *) [ ! -t 1 ] || printf '\r   %-60.60s' "$step" ;;
      esac
    done
  [ ! -t 1 ] || printf '\r%64s\r' ''
}

echo "== installing from Debian's mirror, which takes a minute or two:$missing"
export DEBIAN_FRONTEND=noninteractive
case $missing in *:arm64*) dpkg --add-architecture arm64 ;; esac
said=$(mktemp)
trap 'rm -f "$said" "$said.failed"' EXIT
apt-get update -q -q -o APT::Update::Error-Mode=any >"$said" 2>&1 || has_mirror=no
# shellcheck disable=SC2086  # a list of words
{ apt-get install -q -y --no-install-recommends $missing 2>&1 || : >"$said.failed"; } | tee -a "$said" | progress
[ -e "$said.failed" ] || exit 0
grep '^E: ' "$said" | tail -n 3 >&2
if [ "${has_mirror:-yes}" = no ]; then
  echo "install-packages.sh: no package mirror can be reached from here. Behind a proxy, set http_proxy=http://PROXY:PORT; without a network, install by other means what is missing:$missing" >&2
else
  echo "install-packages.sh: the mirror does not have all that is missing:$missing" >&2
fi
exit 1
