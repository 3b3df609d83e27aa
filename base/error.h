// The only exception of this program. It is thrown where a command fails, and printed once, by
// plugin/main.cc.
//
// Shapes     msg      what was being done, with names; no final full stop
//            details  the kernel's or the file's own words, numbers, the allowed range; may be
//                     empty
// Errors     0-99 are the CNI specification's codes, 100 and up ours; the enumerators are the
//            numbers on the wire.
// Rules      An expected outcome ("absent", "taken") is a return value, never an Error. No code
//            catches an Error to add context: the thrower knows the names. Our messages never
//            contain the words "not found", which go-cni treats as success on DEL;
//            plugin/cni/error_list.h removes them from messages of other programs.
// Source     https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#error
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/fix.h"

namespace nomad_bridge {

enum class Code : int {
  kIncompatibleVersion = 1,  // cniVersion, or a verb that this version does not have
  kUnsupportedField = 2,     // a config value that is not supported; msg names key and value
  kInvalidEnvironment = 4,   // a CNI_* variable; msg names it
  kIo = 5,                   // our files: records, leases, locks, stdin, stdout
  kDecode = 6,               // stdin is not valid JSON of the expected types
  kInvalidConfig = 7,        // the network config has an invalid value
  kInvalidNetns = 8,         // CNI_NETNS is the host's own network namespace
  kTryAgain = 11,            // timed out: a lock, an event, the kernel or another program
  kUnavailable = 50,         // STATUS: ADD cannot succeed
  kKernel = 100,             // the kernel refused; details have its words and errno's name
  kPoolExhausted = 101,      // no free address
  kConflict = 102,    // an address, host port, interface or file that belongs to another owner
  kChanged = 103,     // CHECK: something is missing or different
  kIncomplete = 104,  // something could not be removed; details list each
  kDelegate = 105,    // a delegated plugin failed without an error document
  kInternal = 999,    // unexpected
};

class Error : public std::exception {
 public:
  Error(Code code, std::string msg, std::string details = {}, Fix fix = {});

  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& msg() const { return msg_; }
  [[nodiscard]] const std::string& details() const { return details_; }
  // What removes the reason of the error, if its thrower knows that; `details` say so, too.
  [[nodiscard]] const Fix& fix() const { return fix_; }
  // "msg: details", for logs and lists of errors.
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  Code code_;
  std::string msg_;
  std::string details_;
  Fix fix_;
  std::string what_;
};

// Returns "No such file or directory (ENOENT)": `words`, or strerror(3)'s text if there are none,
// and the errno's name.
[[nodiscard]] std::string ErrnoText(int error, std::string_view words = {});

// Returns Error(code, msg, ErrnoText(errno)) for a system call that has just failed.
[[nodiscard]] Error ErrnoError(Code code, std::string msg);

}  // namespace nomad_bridge
