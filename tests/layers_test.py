#!/usr/bin/env python3
"""The walls between the rooms, checked by reading the sources:

  - a room includes only itself and what its nb_room(... NEEDS ...) in a CMakeLists.txt names; the order of
    those lists admits no circle, and calls are checked by the linker (tests/rooms)
  - C libraries (libnl, libmnl, libnftnl) only in netlink/*/*.cc and its private headers; JSON only in
    plugin/'s cni and cli, plugin/policy/document, plugin/state/*json*
  - close(), *_free() and *_put() only where a handle's owner is defined
  - no child processes but those of base/subprocess, background_request and cleanup, no sleeping, no
    source file over 500 lines

Usage: tests/layers_test.py [directory of the checkout]
"""

import fnmatch
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
TOPS = ["base", "netlink", "ipam", "firewall", "portmap", "plugin"]
PRIVATE_HEADERS = {"netlink/core/handles.h", "netlink/core/message.h", "netlink/rtnl/rtnl_impl.h",
                   "netlink/nft/codec.h"}
OWNERS = {"base/fd.h", "netlink/core/handles.h"}
STARTERS = {"base/guard.cc", "base/subprocess.cc", "netlink/core/background_request.cc", "netlink/probe/cleanup.cc"}
JSON_FILES = ["plugin/cni/*", "plugin/cli/*", "plugin/policy/document.cc", "plugin/policy/program_json.cc", "plugin/state/*json*.cc"]
MOST_LINES = 500
FORBIDDEN = [
    (r"(^|[^\w])(system|popen|u?sleep|nanosleep|sleep_for|sleep_until)\(", set(), "starts a shell or sleeps"),
    (r"(^|[^\w.])(v?fork|clone3?|posix_spawnp?|f?exec[lv][pe]*)\(", STARTERS,
     f"starts a program outside {' '.join(sorted(STARTERS))}"),
    # nla_put() and mnl_attr_put() write into a message; the others give a reference back.
    (r"(^|[^\w.>])close\(|_free\(|(?<!nla)(?<!mnl_attr)_put\(", OWNERS,
     f"close(), *_free() or *_put() outside {' '.join(sorted(OWNERS))}"),
]

mismatches = []


def read_rooms():
    """Of each room's directory: the room's name, and those that it needs."""
    rooms = {}
    for top in TOPS:
        text = (ROOT / top / "CMakeLists.txt").read_text()
        for words in re.findall(r"^nb_room\((.*?)\)", text, re.S | re.M):
            name, *words = words.split()
            directory = f"{top}/{words[1]}" if words[0] == "DIR" else top
            needs = words[words.index("NEEDS") + 1:] if "NEEDS" in words else []
            needs = needs[:needs.index("PRIVATELY")] if "PRIVATELY" in needs else needs
            rooms[directory] = (name, needs)
    return rooms


def mismatch(file, words):
    mismatches.append(f"{file}: {words}")


def check_includes(file, text, rooms):
    directory = file.rpartition("/")[0]
    if file == "plugin/main.cc":
        room, needs = "main", ["commands", "cli", "state", "cni", "base"]
    elif directory in rooms:
        room, needs = rooms[directory]
    else:
        return mismatch(file, "is in no room")
    for included in re.findall(r'^#include "(.*)"', text, re.M):
        other = rooms.get(included.rpartition("/")[0], ("none",))[0]
        if other not in [room, *needs]:
            mismatch(file, f"room {room} may not include {included}")
        if included in PRIVATE_HEADERS and not file.startswith("netlink/"):
            mismatch(file, f"{included} is private to netlink/")
    for library in re.findall(r"^#include <(.*)>", text, re.M):
        if library.startswith(("netlink/", "libmnl/", "libnftnl/")):
            if not fnmatch.fnmatch(file, "netlink/*.cc") and file not in PRIVATE_HEADERS:
                mismatch(file, f"C library <{library}> outside netlink/*.cc")
        if library.startswith("nlohmann/") and not any(fnmatch.fnmatch(file, each) for each in JSON_FILES):
            mismatch(file, "JSON outside cni, cli, policy/document and state/*json*")


def check_words(file, text):
    code = re.sub(r"//.*", "", text)
    for pattern, exceptions, words in FORBIDDEN:
        if file not in exceptions and re.search(pattern, code, re.M):
            mismatch(file, words)
    if text.count("\n") > MOST_LINES:
        mismatch(file, f"{text.count(chr(10))} lines, over {MOST_LINES}")


def main():
    rooms = read_rooms()
    files = sorted(str(path.relative_to(ROOT))
                   for top in TOPS for path in (ROOT / top).rglob("*") if path.suffix in (".h", ".cc"))
    for file in files:
        text = (ROOT / file).read_text()
        check_includes(file, text, rooms)
        check_words(file, text)
    print("\n".join([*mismatches, f"layers: {len(mismatches)} mismatches in {len(files)} files"]))
    return 1 if mismatches else 0


sys.exit(main())
