#!/bin/sh
# The tests, as CI runs them: installs what is missing, builds with and without sanitizers, warnings
# as errors, runs the tests, and checks form (clang-format) and lint (clang-tidy).
#
# Usage  ./test.sh            what a change must pass: every room and topic; sweeps sampled; under
#                             sanitizers the rooms, the fuzz targets' inputs and the quick cases of
#                             the plugin; VLAN and SCTP under Debian 12's kernel; lint of what
#                             changed
#        ./test.sh --all      before a release: every case and every point of every sweep, all cases
#                             under sanitizers and in a container, other firewalls and kernels,
#                             packages, systemd, real clients, mutated inputs, steps left out, lint
#                             of everything
#        ./test.sh --kernels  every second quick case under Debian's other kernels (5.10, 6.1, 6.12)
# Needs  Debian 12 or 13, root (the tests make network namespaces; the machine's own is never
#        touched)
# Env    NOMAD_BRIDGE_SWEEP   which points of a sweep are tried, FIRST/STEP (tests/support/sweep.h);
#                             else the first is chosen by chance, and printed
# Prints what runs; of the tests only those that fail; as the very last line "N passed, N failed",
#        over everything.
#        A skipped test has failed: green must not mean that nothing ran.
# Form   and lint are clang-format 14's and clang-tidy 14's, which Debian 12 has: another version
#        formats and warns differently. Elsewhere both are checked if these versions are installed.
# Leaves build/, for the next time to be faster
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
cd "$(dirname "$0")" || exit 1

mode=${1:-}
case $mode in
  '' | --all | --kernels) ;;
  *)
    sed -n '5,17s/^# \{0,1\}//p' "$0" >&2
    exit 64 ;;
esac
passed=0
failed=0
jobs=$(nproc)
started=$(date +%s)

# say "what": what begins now, and after how many seconds.
say() {
  echo "== $1   $(($(date +%s) - started)) s"
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
  $where "ctest --test-dir build/$preset --output-on-failure --no-tests=error -j $((4 * jobs)) \
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

# run_counting what log command...: one that counts its tests itself, in its last line.
run_counting() {
  log=build/$2.log
  say "$1"
  shift 2
  "$@" >"$log" 2>&1
  result=$?
  good=$(sed -n '$s/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$log")
  bad=$(sed -n '$s/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$log")
  if [ $result -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then
    bad=1  # it ended before it had counted
  fi
  if [ "${bad:-0}" -ne 0 ]; then
    tail -n 200 "$log"
  fi
  echo "   ${good:-0} passed, ${bad:-0} failed"
  passed=$((passed + ${good:-0}))
  failed=$((failed + ${bad:-0}))
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

low() {
  nice -n 19 sh -c "$1"
}

# Both of its tools, or none.
has_style() {
  [ "$release" = bookworm ] || { command -v clang-format-14 && command -v clang-tidy-14; } >/dev/null
}

lint() {
  has_style || return
  check "lint, $1" nice -n 19 tests/lint build/lint "$1"
}

install() {
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2046  # words
  packaging/install-packages.sh test $([ "$mode" != --all ] || echo fuzz) || { failed=1; finish; }
  if [ "$release" = bookworm ]; then
    packaging/install-packages.sh style || { failed=1; finish; }
  fi
}

# A sweep's first point differs from run to run, so that the sampled points come to be all of them.
choose_points() {
  step=7
  [ "$mode" != --all ] || step=1
  sampled=$(($(date +%s) % 7 + 1))/7
  export NOMAD_BRIDGE_SWEEP="${NOMAD_BRIDGE_SWEEP:-$(($(date +%s) % step + 1))/$step}"
  echo "== sweeps at points NOMAD_BRIDGE_SWEEP=$NOMAD_BRIDGE_SWEEP"
}

check_form() {
  if has_style; then
    # shellcheck disable=SC2046  # a list of files
    check "form" clang-format-14 --dry-run -Werror \
      $(find base netlink ipam firewall portmap plugin tests -name '*.h' -o -name '*.cc' | sort)
  else
    echo "== form and lint are not checked: no clang-format-14 and clang-tidy-14"
  fi
}

# What has to be there when the tests are configured. Where the module proxy refuses it, there is a
# test with a stand-in alone; any other failure is one.
build_clients() {
  say "tc-redirect-tap"
  mkdir -p build
  tests/clients/build-tc-redirect-tap build/tc-redirect-tap >build/tc-redirect-tap.log 2>&1 && return
  if grep -Eq ': (403|404|410) ' build/tc-redirect-tap.log; then
    echo "   the module proxy refuses it: it is not tested"
  else
    cat build/tc-redirect-tap.log
    failed=1
  fi
}

configure() {
  check "configure, release" cmake --preset release || finish
  check "configure, asan" cmake --preset asan || finish
  check "configure, lint" cmake --preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON || finish
}

# The plugin tests run a binary, of either build, and link nothing of ours.
under_sanitizers() {
  run_tests "asan: rooms and inputs of fuzz targets" asan here "-L '^(unit|kernel|fuzz)-quick' -E '^(layers|docs|steps)\$'"
  NOMAD_BRIDGE_BINARY=$PWD/build/asan/plugin/nomad-bridge
  # What a sweep does alike before each of its runs.
  NOMAD_BRIDGE_UNSANITIZED=$PWD/build/release/plugin/nomad-bridge
  export NOMAD_BRIDGE_BINARY NOMAD_BRIDGE_UNSANITIZED
  run_tests "asan: plugin" release here "$1"
  unset NOMAD_BRIDGE_BINARY NOMAD_BRIDGE_UNSANITIZED
}

under_kernels() {
  run_counting "under other kernels" kernels tests/with-kernel --all
}

fuzz() {
  clang=$(packaging/install-packages.sh --list fuzz | grep -x 'clang-[0-9]*')
  CXX=clang++${clang#clang} check "configure, fuzz" cmake --preset fuzz &&
    check "build, fuzz" low "cmake --build build/fuzz -j $jobs --target nb_fuzz_targets" &&
    run_tests "mutated inputs" fuzz low "-L fuzz"
}

# Bridge VLAN filtering and SCTP sockets, which not every kernel has.
kernel_features() {
  run_counting "VLAN and SCTP, under the kernel of Debian 12" features \
    tests/with-kernel bookworm "tests/run-cases build/release/tests/plugin/nb_vm_plugin_link build/release/tests/kernel/nb_vm_kernel_netlink"
}

run_default() {
  run_tests "release" release here "-LE 'thorough|clients|packages|units'"
  collect asan
  built=$?
  aside features kernel_features
  aside lint lint changed
  [ $built -ne 0 ] || under_sanitizers "-L plugin-quick"
  collect features
  collect lint
}

run_all() {
  NOMAD_BRIDGE_SOAK_SECONDS=60 run_tests "release" release here "-C all"
  export NOMAD_BRIDGE_SWEEP="$sampled"
  echo "== sweeps at points NOMAD_BRIDGE_SWEEP=$NOMAD_BRIDGE_SWEEP"
  collect asan
  built=$?
  aside background aside_all
  [ $built -ne 0 ] || under_sanitizers "-L '^plugin'"
  # As users have it who test in containers. Without what is built with Go, which comes with no
  # package, and packages, which have root file systems of their own.
  run_tests "in a privileged container" release tests/in-container "-LE 'thorough|packages|units' -E '^clients/cnitool'"
  run_counting "beside other firewalls" firewalls tests/beside-firewalls
  run_counting "steps left out or exchanged" steps tests/without-a-step
  collect background
  under_kernels
}

# What computes, and waits for nothing.
aside_all() {
  kernel_features
  fuzz
  lint all
}

if [ "$(id -u)" -ne 0 ]; then
  echo "test.sh needs root: the tests make network namespaces"
  failed=1
  finish
fi
install
# A clone elsewhere finds what was compiled in this one: paths count from its root. With precompiled
# headers ccache wants to be told that their own times do not matter.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
# A header of which only a comment has changed is another one for g++, which would include it once
# more beside an older precompiled one.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_COMMENTS=1

choose_points
check_form
[ "$mode" != --all ] || build_clients
configure
check "build, release" cmake --build build/release -j "$jobs" || finish
if [ "$mode" = --kernels ]; then
  under_kernels
  finish
fi
# Tests wait for the kernel most of their time; what computes runs beside them, at the lowest
# priority.
aside asan check "build, asan" nice -n 19 cmake --build build/asan -j "$jobs" \
  --target nomad-bridge nb_unit_tests nb_kernel_tests nb_fuzz_targets
if [ "$mode" = --all ]; then
  run_all
else
  run_default
fi
finish
