#!/bin/bash
# nomad-bridge in a minute: an allocation gets its network, survives a flushed firewall, a fault is
# found with the command against it, a policy keeps another namespace out, and nothing is left behind.
#
# Needs  Debian 12 or 13, and root. Everything happens in fresh namespaces: the machine's own
#        network and /run are not touched.
# Exits  with 0 only if every step showed what it says.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
cd "$(dirname "$0")"

if [ "$(id -u)" -ne 0 ]; then
  echo "demo.sh needs root: it makes network namespaces" >&2
  exit 1
fi
if [ -z "${NOMAD_BRIDGE_DEMO_INSIDE:-}" ]; then
  packaging/install-packages.sh demo
  echo "== building, which takes some minutes the first time"
  cmake --preset release -DNOMAD_BRIDGE_TESTS=OFF >/dev/null
  cmake --build build/release --target nomad-bridge -- --quiet
  # With a process namespace of its own, everything that the demo starts ends with it.
  NOMAD_BRIDGE_DEMO_INSIDE=1 exec unshare --mount --net --pid --fork --kill-child --mount-proc ./demo.sh
fi

bold=
plain=
if [ -t 1 ]; then
  bold=$(tput bold 2>/dev/null || true)
  plain=$(tput sgr0 2>/dev/null || true)
fi

title() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }

# Shows a command as you would type it, runs it and shows its output. Keeps that in $output, its
# exit code in $code.
try() {
  printf '%s$ %s%s\n' "$bold" "$1" "$plain"
  code=0
  eval "$1" >"$work/output" 2>&1 || code=$?
  output=$(cat "$work/output")
  [ -z "$output" ] || printf '%s\n' "$output"
}

fail() {
  echo "demo.sh: $*" >&2
  exit 1
}
succeeds() { [ "$code" -eq 0 ] || fail "this should have succeeded (exit code $code)"; }
fails() { [ "$code" -ne 0 ] || fail "this should have failed"; }
shows() { case $output in *"$1"*) ;; *) fail "this should have shown '$1'" ;; esac; }
shows_not() { case $output in *"$1"*) fail "this should not have shown '$1'" ;; esac; }
shows_nothing() { [ -z "$output" ] || fail "this should have shown nothing"; }

# --- The stage: this namespace is the node, "outside" a machine beside it, "billing" and "search"
# two allocations.
export PATH=$PWD/build/release/plugin:$PATH
mount -t tmpfs tmpfs /run
work=/run/demo
mkdir -p $work /run/netns
cd $work
ip link set lo up
ip netns add outside
ip link add uplink type veth peer name uplink netns outside
ip address add 198.51.100.1/24 dev uplink
ip link set uplink up
ip -n outside address add 198.51.100.2/24 dev uplink
ip -n outside link set uplink up
ip netns add billing
ip netns add search
cat >billing.json <<'JSON'
{ "cniVersion": "1.0.0", "name": "nomad", "type": "nomad-bridge",
  "runtimeConfig": { "portMappings": [
    { "HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": "" } ] } }
JSON
cp billing.json search.json
echo "Hello from job billing" >index.html

title "A bare machine: no bridge, no rules."
try "ip -brief link"
shows_not nomad
try "nft list ruleset"
shows_nothing

title "Nomad starts an allocation. This is what it gives a plugin: a namespace, its labels, a port to publish."
try "cat billing.json"
try "export CNI_CONTAINERID=5f3c1a2b-77aa-4d1e-9a50-1f6d0c2b9e11 CNI_NETNS=/run/netns/billing CNI_IFNAME=eth0"
try "export CNI_ARGS='IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=billing;NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b-77aa-4d1e-9a50-1f6d0c2b9e11'"
try "CNI_COMMAND=ADD nomad-bridge < billing.json > result.json"
succeeds
try "jq -c .ips[] result.json"
shows 172.26.64.

title "The allocation has an address and a way out."
try "ip -n billing -brief address"
shows eth0
try "ip -n billing route"
shows "default via 172.26.64.1"

title "On the node, the link's alias names its owner."
try "ip link show type veth master nomad"
shows billing
shows api

title "What runs here, in one line each."
try "nomad-bridge list"
shows billing
shows 8080

title "The rules never change; allocations and ports are elements of sets and maps, with their labels."
try "nft list map inet nomad-bridge port4"
shows "8080"
shows "billing"

title "A page through the published port, from outside."
(ip netns exec billing python3 -m http.server --directory $work 80 >/dev/null 2>&1 &)
for _ in $(seq 100); do  # until it listens
  ip netns exec billing curl -s -o /dev/null http://127.0.0.1/ && break
  sleep 0.05
done
page="ip netns exec outside curl -s -m 2 --noproxy '*' http://198.51.100.1:8080/index.html"
try "$page"
succeeds
shows "Hello from job billing"

title "Somebody flushes the firewall, and the page is gone ..."
try "nft flush ruleset"
try "$page"
fails

title "... until the next CHECK (Nomad runs one when its agent starts): it repairs the host's side and lists what it repaired."
try "jq --slurpfile result result.json '.prevResult = \$result[0]' billing.json > check.json"
try "CNI_COMMAND=CHECK nomad-bridge < check.json"
succeeds
shows repaired
try "$page"
succeeds
shows "Hello from job billing"

title "Or until 'nomad-bridge reconcile', which the package's timer runs."
try "nft flush ruleset"
try "nomad-bridge reconcile"
succeeds
try "$page"
succeeds
shows "Hello from job billing"

title "Another program drops what is forwarded, and the page is gone. 'inspect' sends a packet and shows where it ends:"
try "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy drop; }; }'"
try "$page"
fails
try "nomad-bridge inspect 8080"
fails
shows "forward ✗"
shows "table inet mine"

title "'doctor' says the same of the node; what it prints is to be pasted."
try "nomad-bridge doctor forward"
fails
shows FAIL
try "$(sed -n 's/^ *fix: //p' "$work/output" | head -n 1)"
succeeds
try "$page"
succeeds
shows "Hello from job billing"
try "nft delete table inet mine"

title "Another allocation wants the same port: refused, with the name of the owner, and nothing left behind."
try "CNI_COMMAND=ADD CNI_CONTAINERID=c0ffee00-1111-4222-8333-444455556666 CNI_NETNS=/run/netns/search CNI_ARGS='IgnoreUnknown=true;NOMAD_JOB_ID=search;NOMAD_ALLOC_ID=c0ffee00-1111-4222-8333-444455556666' nomad-bridge < search.json"
fails
shows 8080
shows billing
try "ip -n search -brief link"
shows_not eth0

title "Who may talk to whom: Nomad namespaces are closed to each other, at first in audit, which only notes who would be refused."
mkdir policy.d
cat >policy.d/namespaces.json <<'JSON'
{ "version": 1, "policies": [
  { "name": "namespaces", "to": {"namespace": "*"}, "mode": "audit", "allow": [
    {"from": ["same-namespace", "outside"]} ] } ] }
JSON
sed '/runtimeConfig/,$d; s/nomad-bridge",$/nomad-bridge" }/' billing.json >search.json
billing=$(jq -r '.ips[0].address | split("/")[0]' result.json)
neighbour="ip netns exec search curl -s -m 2 --noproxy '*' http://$billing/index.html"
try "CNI_COMMAND=ADD CNI_CONTAINERID=c0ffee00-1111-4222-8333-444455556666 CNI_NETNS=/run/netns/search CNI_ARGS='IgnoreUnknown=true;NOMAD_NAMESPACE=dev;NOMAD_JOB_ID=search;NOMAD_GROUP_NAME=api' nomad-bridge < search.json | jq -c .ips[]"
succeeds
if [ -e /proc/sys/net/bridge ]; then
  try "cat policy.d/namespaces.json"
  try "nomad-bridge policy apply policy.d"
  succeeds
  try "$neighbour"
  shows "Hello from job billing"
  try "nomad-bridge policy status -flows"
  shows "dev/search/api"
  shows "would be refused by namespaces"
  shows '"namespace":"dev","job":"search"'

  title "Enforced, dev/search no longer reaches prod/billing: it fails at once, and outside goes on."
  try "sed -i 's/\"mode\": \"audit\", //' policy.d/namespaces.json"
  try "nomad-bridge policy apply policy.d"
  succeeds
  try "$neighbour"
  fails
  try "$page"
  shows "Hello from job billing"
  try "nomad-bridge policy test -from search -to 8080"
  fails
  shows "refused by namespaces at the target, prod/billing"
  try "rm policy.d/namespaces.json"
  try "nomad-bridge policy apply policy.d"
  succeeds
else
  echo "The module br_netfilter, without which no rule sees what neighbours send each other, is not loaded."
fi
try "CNI_COMMAND=DEL CNI_CONTAINERID=c0ffee00-1111-4222-8333-444455556666 CNI_NETNS=/run/netns/search CNI_ARGS= nomad-bridge < search.json"
succeeds

title "The allocation ends."
try "CNI_COMMAND=DEL nomad-bridge < billing.json"
succeeds
shows_nothing

title "An empty machine again: no link, no element, no record, no lease."
try "ip -brief link show type veth master nomad"
shows_nothing
try "nft -j list table inet nomad-bridge | jq -c '.nftables[] | (.set, .map) | select(.elem) | {name, elem}'"
shows_not 172.26
shows_not 8080
try "find /run/nomad-bridge /var/run/cni -name '*.json' -o -name '172.26.*'"
shows_nothing

printf '\nThat was all of it. The bridge and the empty table stay for the next allocation; a reboot takes them.\n'
