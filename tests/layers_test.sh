#!/bin/sh
# The walls between the rooms, checked by reading the sources:
#
#   - a room includes only itself and what its nb_room(... NEEDS ...) in a CMakeLists.txt names; the
#   order of those
#     lists admits no circle, and calls are checked by the linker (tests/rooms)
#   - C libraries (libnl, libmnl, libnftnl) only in netlink/*/*.cc and its private headers; JSON
#   only in plugin/'s cni
#     and cli, plugin/policy/document, plugin/state/*json*
#   - close(), *_free() and *_put() only where a handle's owner is defined
#   - no child processes but those of base/subprocess and netlink/core/background_request, no
#   sleeping, no source file over 400 lines
#
# Usage: tests/layers_test.sh [directory of the checkout]
set -eu
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}"

private_headers="netlink/core/handles.h netlink/core/message.h netlink/rtnl/rtnl_impl.h netlink/nft/codec.h"
owners="base/fd.h netlink/core/handles.h"
starters="base/subprocess.cc netlink/core/background_request.cc"
mismatches=$(mktemp)
table=$(mktemp)
trap 'rm -f "$mismatches" "$table"' EXIT

# One line per room: its directory, its name, and the rooms it needs.
for list in CMakeLists.txt */CMakeLists.txt; do
  { tr '\n' ' ' <"$list"; echo; } | sed 's/nb_room(/\n&/g' | sed -n 's/^nb_room(\([a-z_]*\)\([^)]*\)).*/\1 \2/p' |
    while read -r room words; do
      directory=$(dirname "$list")
      case $words in
        DIR\ *)
          words=${words#DIR }
          directory=$directory/${words%% *} ;;
      esac
      needs=${words#*NEEDS }
      echo "$directory $room ${needs%%PRIVATELY*}"
    done
done | grep -v '^\. ' >"$table"

# room_in DIRECTORY: sets `room` to the one there, or to nothing. Without a process: some thousand
# includes are looked up.
newline='
'
rooms=$newline$(cat "$table")
room_in() {
  rest=${rooms#*"$newline$1 "}
  room=
  [ "$rest" = "$rooms" ] || room=${rest%% *}
}

is_among() {
  case " $2 " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
  esac
}

mismatch() {
  echo "$1: $2" | tee -a "$mismatches"
}

# The file without its comments, so that prose about close() is no mismatch.
code() {
  sed 's,//.*,,' "$1"
}

# check_includes file room needs
check_includes() {
  for included in $(sed -n 's/^#include "\(.*\)".*/\1/p' "$1"); do
    room_in "${included%/*}"
    is_among "${room:-none}" "$2 $3" || mismatch "$1" "room $2 may not include $included"
    case $1 in
      netlink/*) ;;
      *) ! is_among "$included" "$private_headers" || mismatch "$1" "$included is private to netlink/" ;;
    esac
  done
  for library in $(sed -n 's/^#include <\(.*\)>.*/\1/p' "$1"); do
    case $library in
      netlink/* | libmnl/* | libnftnl/*)
        case $1 in
          netlink/*.cc) ;;
          *) is_among "$1" "$private_headers" || mismatch "$1" "C library <$library> outside netlink/*.cc" ;;
        esac ;;
      nlohmann/*)
        case $1 in
          plugin/cni/* | plugin/cli/* | plugin/policy/document.cc | plugin/state/*json*.cc) ;;
          *) mismatch "$1" "JSON outside cni, cli, policy/document and state/*json*" ;;
        esac ;;
    esac
  done
}

check_words() {
  # nla_put() and mnl_attr_put() write into a message; the others give a reference back.
  if ! is_among "$1" "$owners" &&
      code "$1" | grep -v -E '(nla|mnl_attr)_put' | grep -q -E '(^|[^[:alnum:]_.>])close\(|_free\(|_put\('; then
    mismatch "$1" "close(), *_free() or *_put() outside $owners"
  fi
  if code "$1" | grep -q -E '(^|[^[:alnum:]_])(system|popen|u?sleep|nanosleep|sleep_for|sleep_until)\('; then
    mismatch "$1" "starts a shell or sleeps"
  fi
  if ! is_among "$1" "$starters" &&
      code "$1" | grep -q -E '(^|[^[:alnum:]_.])(v?fork|clone3?|posix_spawnp?|f?exec[lv][pe]*)\('; then
    mismatch "$1" "starts a program outside $starters"
  fi
  if [ "$(wc -l < "$1")" -gt 400 ]; then
    mismatch "$1" "$(wc -l < "$1") lines, over 400"
  fi
}

files=0
for file in $(find base netlink ipam firewall portmap plugin -name '*.h' -o -name '*.cc' | sort); do
  if [ "$file" = plugin/main.cc ]; then
    check_includes "$file" main "commands cli state cni base"
  else
    row=$(awk -v directory="$(dirname "$file")" '$1 == directory' "$table")
    [ -n "$row" ] || mismatch "$file" "is in no room"
    read -r _ room needs <<END
$row
END
    check_includes "$file" "$room" "$needs"
  fi
  check_words "$file"
  files=$((files + 1))
done

if [ -s "$mismatches" ]; then
  echo "layers: $(wc -l < "$mismatches") mismatches in $files files"
  exit 1
fi
echo "layers: $files files in order"
