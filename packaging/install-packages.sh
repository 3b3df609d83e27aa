#!/bin/sh
# Installs on Debian 12 what is missing for a purpose, and nothing else.
#
# Usage: packaging/install-packages.sh build|test|vm|container|demo ...     (root)
#        packaging/install-packages.sh --list build|test|vm|container|demo  (only says what that is)
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

packages() {
  case $1 in
    build)
      echo g++ cmake ninja-build pkg-config
      echo libnl-3-dev libmnl-dev libnftnl-dev nlohmann-json3-dev ;;
    test)
      packages build
      echo libgtest-dev libgmock-dev clang-format clang-tidy
      # The tests read back with other tools, and try the leases against the reference host-local.
      echo iproute2 nftables iptables conntrack iputils-ping kmod strace containernetworking-plugins
      # Firewalls of others that really run.
      echo firewalld dbus
      # Real clients, and what they run containers with. Go for cnitool comes as tests/clients/build-cnitool says.
      echo podman containerd crun busybox-static ;;
    vm)
      # What tests/with-kernel boots other kernels with.
      echo qemu-system-x86 kmod busybox-static python3-venv ;;
    container)
      # What tests/in-container runs the tests in.
      echo debootstrap podman runc ;;
    demo)
      packages build
      echo iproute2 nftables curl python3 jq ;;
    *)
      echo "no purpose '$1': build, test, vm, container or demo" >&2
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
if [ -n "$missing" ]; then
  echo "== installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q -q
  # shellcheck disable=SC2086  # a list of words
  apt-get install -q -q -y --no-install-recommends $missing >/dev/null
fi
