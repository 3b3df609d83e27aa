#!/bin/sh
# All tests, as CI runs them: installs what is missing, builds with and without sanitizers, warnings
# as errors, runs every test of both builds, and checks form (clang-format) and lint (clang-tidy).
#
# Needs  Debian 12 or 13, root (the tests make network namespaces; the machine's own is never
#        touched)
# Prints what runs; of the tests only those that fail; as the very last line "N passed, N failed",
# over everything.
#        A skipped test has failed: green must not mean that nothing ran.
# Form   and lint are clang-format 14's and clang-tidy 14's, which Debian 12 has: another version
#        formats and warns differently. Elsewhere both are checked if these versions are installed.
# Usage  ./test.sh [--all]    (all: the release built again and compared, every test in the
#        container too, lint of the tests, an upgrade from an earlier build, every step of a command
#        left out once, cases of traffic beside other firewalls and under the kernel of Debian 12)
# Leaves build/, for the next time to be faster
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
cd "$(dirname "$0")" || exit 1

passed=0
failed=0
jobs=$(nproc)
started=$(date +%s)

# say "what": what begins now, and after how many seconds.
say() {
  echo "== $1   ($(($(date +%s) - started)) s)"
}

finish() {
  wait
  say "done"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}
# check "what" command...: one check that is no ctest; its output is shown if it fails.
check() {
  what=$1
  shift
  say "$what"
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
  else
    printf '%s\n' "$output" | tail -n 200
    echo "FAILED: $what"
    failed=$((failed + 1))
    return 1
  fi
}

# The number in the attribute $1 of the test suite in ctest's JUnit report $2.
count() {
  number=$(sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1)
  echo "${number:-0}"
}

here() {
  sh -c "$1"
}

# run_tests what preset where options: tests of that build, side by side: each has namespaces of its
# own. Where: a command that runs its one argument by sh; options: ctest's, quoted for sh.
run_tests() {
  what=$1
  preset=$2
  where=$3
  options=$4
  log=build/$preset/ctest.log
  report=$PWD/build/$preset/ctest.xml
  rm -f "$report"
  say "tests, $what"
  # The cases wait for the kernel, and for other programs, most of their time.
  $where "ctest --test-dir build/$preset --output-on-failure --no-tests=error -j $((3 * jobs)) \
    --output-junit '$report' $options" >"$log" 2>&1
  result=$?
  total=$(count tests "$report")
  bad=$(($(count failures "$report") + $(count disabled "$report") + $(count skipped "$report")))
  if [ $result -ne 0 ] && [ $bad -eq 0 ]; then
    bad=1  # ctest itself failed
  fi
  if [ $bad -ne 0 ]; then
    grep -v -E '^ *Start |[[:space:]]Passed[[:space:]]' "$log"
  fi
  echo "   $((total > bad ? total - bad : 0)) passed, $bad failed"
  passed=$((passed + (total > bad ? total - bad : 0)))
  failed=$((failed + bad))
}

# aside name function arguments...: that, in the background, until "collect name" shows what it
# printed and counts its results.
aside() {
  name=$1
  shift
  (
    passed=0
    failed=0
    "$@"
    echo "$passed $failed" >"build/$name.results"
  ) >"build/$name.output" 2>&1 &
  echo $! >"build/$name.pid"
}

collect() {
  wait "$(cat "build/$1.pid")"
  cat "build/$1.output"
  read -r good bad <"build/$1.results"
  passed=$((passed + good))
  failed=$((failed + bad))
  [ "$bad" -eq 0 ]
}

# run_elsewhere log suite [filter] programs...: test programs under the kernel of a Debian release.
run_elsewhere() {
  log=build/vm-$1.log
  suite=$2
  shift 2
  say "tests, under the kernel of $suite"
  tests/with-kernel "$suite" "tests/run-cases $*" >"$log" 2>&1
  result=$?
  good=$(sed -n '$s/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$log")
  bad=$(sed -n '$s/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$log")
  if [ $result -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then
    bad=1  # the virtual machine itself failed
  fi
  if [ "${bad:-0}" -ne 0 ]; then
    tail -n 200 "$log"
  fi
  echo "   ${good:-0} passed, ${bad:-0} failed"
  passed=$((passed + ${good:-0}))
  failed=$((failed + ${bad:-0}))
}

low() {
  nice -n 19 sh -c "$1"
}

# Reads with clang-tidy every file that it has not found in order before, then gives each fuzz
# target 15 seconds.
lint_and_fuzz() {
  if has_style; then
    check "lint" low "run-clang-tidy-14 -clang-tidy-binary '$PWD/tests/tidy-once' -quiet -p build/lint -j $jobs '^$PWD/(($rooms)/|build/lint/.*/Unity/)'"
  fi
  clang=$(packaging/install-packages.sh --list fuzz | grep -x 'clang-[0-9]*')
  CXX=clang++${clang#clang} check "configure, fuzz" cmake --preset fuzz &&
    check "build, fuzz" low "cmake --build build/fuzz -j $jobs --target nb_fuzz_targets" &&
    run_tests "fuzz targets" fuzz low "-L fuzz"
}

if [ "$(id -u)" -ne 0 ]; then
  echo "test.sh needs root: the tests make network namespaces"
  failed=1
  finish
fi
packaging/install-packages.sh test fuzz || { failed=1; finish; }
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
if [ "$release" = bookworm ]; then
  packaging/install-packages.sh style || { failed=1; finish; }
fi
# Both or none.
has_style() {
  [ "$release" = bookworm ] || { command -v clang-format-14 && command -v run-clang-tidy-14; } >/dev/null
}
# A clone elsewhere finds what was compiled in this one: paths count from its root. With precompiled
# headers ccache wants to be told that their own times do not matter.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

sources=$(find base netlink ipam firewall portmap plugin tests -name '*.h' -o -name '*.cc' | sort)
if has_style; then
  # shellcheck disable=SC2086  # a list of files
  check "form" clang-format-14 --dry-run -Werror $sources
else
  echo "== form and lint are not checked: no clang-format-14 and clang-tidy-14"
fi

# Built once: the plugin tests run a binary, of either build, and link nothing of ours.
check "configure, release" cmake --preset release || finish
check "configure, asan" cmake --preset asan || finish
# clang cannot read g++'s precompiled headers. Files of a room several at a time: most of what
# clang-tidy reads is headers.
check "configure, lint" cmake --preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON || finish
check "build, release" cmake --build build/release -j "$jobs" || finish

# Tests wait for the kernel most of their time; what computes runs beside them, at the lowest
# priority.
rooms='base|netlink|ipam|firewall|portmap|plugin|tests/support'
# The cases themselves only by hand (./test.sh --all): they take twice as long as all the rest.
[ "${1:-}" != --all ] || rooms="$rooms|tests"
aside asan check "build, asan" nice -n 19 cmake --build build/asan -j "$jobs" \
  --target nomad-bridge nb_unit_tests nb_kernel_tests

export NOMAD_BRIDGE_SOAK_SECONDS=60
release_options=
[ "${1:-}" != --all ] || release_options="-C all"
run_tests "release" release here "$release_options"
unset NOMAD_BRIDGE_SOAK_SECONDS

# Where git has it: what nodes have that are upgraded. Five CPU minutes to build.
earlier=2d8aa5e
if [ "${1:-}" = --all ] && git cat-file -e "$earlier^{commit}" 2>/dev/null; then
  check "upgrade from $earlier and back" tests/with-earlier $earlier build/release/tests/plugin/nb_earlier_release
fi
if [ "${1:-}" = --all ]; then
  check "steps left out or exchanged" tests/without-a-step
  check "beside other firewalls" tests/beside-firewalls
  # Traffic that is not ours, and what allocations send.
  WITH_KERNEL_TIMEOUT=3600 run_elsewhere traffic bookworm \
    "--gtest_filter='*LanBridge*:Dhcp*:Masquerade*:Flows*:*Localhost*:Inbound*:TwoNetworks*:ForgedSource*:SourceCheck*:CheckedNetworks*:Ruleset*:Operator*:GcLine*:*GcOfOthers*'" \
    build/release/tests/plugin/nb_plugin_link build/release/tests/plugin/nb_plugin_rules \
    build/release/tests/plugin/nb_plugin_operate
fi

collect asan
built=$?
# What needs a kernel that this one need not be: bridge VLAN filtering, SCTP sockets.
aside vm run_elsewhere features bookworm build/release/tests/plugin/nb_vm_plugin_link \
  build/release/tests/kernel/nb_vm_kernel_netlink
aside background lint_and_fuzz
if [ "$built" -eq 0 ]; then
  run_tests "asan: unit and kernel" asan here "-L '^(unit|kernel)\$' -E '^layers\$'"
  NOMAD_BRIDGE_BINARY=$PWD/build/asan/plugin/nomad-bridge
  # What a sweep does alike before each of its runs.
  NOMAD_BRIDGE_UNSANITIZED=$PWD/build/release/plugin/nomad-bridge
  export NOMAD_BRIDGE_BINARY NOMAD_BRIDGE_UNSANITIZED
  # A third of the interleavings above, and of the calls at which a command is killed (--all: every
  # one).
  [ "${1:-}" = --all ] || export NOMAD_BRIDGE_SPARSE=3
  run_tests "asan: plugin" release here "-L plugin"
  unset NOMAD_BRIDGE_BINARY NOMAD_BRIDGE_UNSANITIZED NOMAD_BRIDGE_SPARSE
fi

# As users have it who test in containers: by hand (./test.sh --all) all of them, else those that
# lean most on the machine.
some="-R '^(kernel/|plugin/names)' -E 'KilledName|RefusedName'"
# But for what is built with Go, which comes with no package, and for packages, which have root file
# systems of their own.
[ "${1:-}" != --all ] || some="-E '^(clients/cnitool|packages|units)'"
run_tests "in a privileged container" release tests/in-container "$some"
collect vm
collect background

finish
