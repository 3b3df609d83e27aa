#!/bin/sh
# The walls between the rooms, checked by reading the sources:
#
#   - who may include whom: base <- netlink <- { ipam (base only), firewall <- portmap } <- plugin
#   - C libraries (libnl, libmnl, libnftnl) only in netlink/*.cc and its private headers; JSON only in plugin/
#   - close(), *_free() and *_put() only where a handle's owner is defined
#   - no child processes but base/program's, no sleeping, no source file over 400 lines
#
# Usage: tests/layers_test.sh [folder of the checkout]
set -eu
cd "${1:-$(dirname "$0")/..}"

rooms="base netlink ipam firewall portmap plugin"
private_headers="netlink/handles.h"  # may name C types, so nobody outside netlink/ may include them
owners="base/fd.cc netlink/handles.h"
starters="base/program.cc"
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

may_include() {
  case $1 in
    base) echo "base" ;;
    netlink) echo "base netlink" ;;
    ipam) echo "base ipam" ;;
    firewall) echo "base netlink firewall" ;;
    portmap) echo "base netlink firewall portmap" ;;
    plugin) echo "$rooms" ;;
  esac
}

is_among() {
  case " $2 " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
  esac
}

finding() {
  echo "$1: $2" | tee -a "$findings"
}

# The file without its comments, so that prose about close() is no finding.
code() {
  sed 's,//.*,,' "$1"
}

check_includes() {
  for included in $(sed -n 's/^#include "\(.*\)".*/\1/p' "$1"); do
    is_among "${included%%/*}" "$(may_include "$2")" || finding "$1" "$2/ may not include $included"
    if [ "$2" != netlink ] && is_among "$included" "$private_headers"; then
      finding "$1" "$included is private to netlink/"
    fi
  done
  for library in $(sed -n 's/^#include <\(.*\)>.*/\1/p' "$1"); do
    case $library in
      netlink/* | libmnl/* | libnftnl/*)
        case $1 in
          netlink/*.cc) ;;
          *) is_among "$1" "$private_headers" || finding "$1" "C library <$library> outside netlink/*.cc" ;;
        esac ;;
      nlohmann/*)
        [ "$2" = plugin ] || finding "$1" "JSON outside plugin/" ;;
    esac
  done
}

check_words() {
  # nla_put() and mnl_attr_put() write into a message; the others give a reference back.
  if ! is_among "$1" "$owners" &&
      code "$1" | grep -v -E '(nla|mnl_attr)_put' | grep -q -E '(^|[^[:alnum:]_.>])close\(|_free\(|_put\('; then
    finding "$1" "close(), *_free() or *_put() outside $owners"
  fi
  if code "$1" | grep -q -E '(^|[^[:alnum:]_])(system|popen|u?sleep|nanosleep|sleep_for|sleep_until)\('; then
    finding "$1" "starts a shell or sleeps"
  fi
  if ! is_among "$1" "$starters" &&
      code "$1" | grep -q -E '(^|[^[:alnum:]_.>])(v?fork|clone3?|posix_spawnp?|f?exec[lv][pe]*)\('; then
    finding "$1" "starts a program outside $starters"
  fi
  if [ "$(wc -l < "$1")" -gt 400 ]; then
    finding "$1" "$(wc -l < "$1") lines, over 400"
  fi
}

files=0
for room in $rooms; do
  for file in "$room"/*.h "$room"/*.cc; do
    check_includes "$file" "$room"
    check_words "$file"
    files=$((files + 1))
  done
done

if [ -s "$findings" ]; then
  echo "layers: $(wc -l < "$findings") findings in $files files"
  exit 1
fi
echo "layers: $files files in order"
