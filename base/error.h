// The one error of this program: thrown where a command fails, printed once, in plugin/main.cc.
//
// Shapes  msg      what we were doing, with the names of what we did it to; no final full stop
//         details  what the kernel or the file said, with numbers and the allowed range; may be
//                  empty
// Codes   0-99 are the CNI specification's, 100 and up are ours; the enumerators carry the wire
//         numbers.
// Rules   An expected outcome ("absent", "taken") is a return value, never an Error. Nobody catches
//         to add context: whoever throws has the names. A message of ours never contains the
//         words "not found", because go-cni takes them, on DEL, for success; those of other programs
//         lose them (plugin/cni/error_list.h).
// Source  https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#error
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace nomad_bridge {

enum class Code : int {
  kIncompatibleVersion = 1,  // cniVersion, or a verb that this version does not have
  kUnsupportedField = 2,     // a config value that we do not do; the message names key and value
  kInvalidEnvironment = 4,   // CNI_* variables; the message names the variable
  kIo = 5,                   // a file of ours: records, leases, locks, stdin, stdout
  kDecode = 6,               // stdin is not what it should be
  kInvalidConfig = 7,        // the network config says something impossible
  kInvalidNetns = 8,         // CNI_NETNS is the host's own network namespace
  kTryAgain = 11,            // a lock, an event or another program's answer did not come in time
  kUnavailable = 50,         // STATUS: an ADD could not possibly work
  kKernel = 100,             // the kernel refused; details carry its words and errno's name
  kPoolExhausted = 101,      // no free address
  kConflict = 102,           // an address, a host port or an interface belongs to somebody else
  kChanged = 103,            // CHECK: something is missing or different
  kIncomplete = 104,         // DEL, GC: some of it could not be removed; details list each
  kDelegate = 105,           // a plugin that we ran failed without an error of its own
  kInternal = 999,           // what nobody foresaw
};

class Error : public std::exception {
 public:
  Error(Code code, std::string msg, std::string details = {});

  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& msg() const { return msg_; }
  [[nodiscard]] const std::string& details() const { return details_; }
  // "msg: details", for logs and for lists of errors.
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  Code code_;
  std::string msg_;
  std::string details_;
  std::string what_;
};

// "No such file or directory (ENOENT)": strerror's words and the errno's name.
[[nodiscard]] std::string ErrnoText(int error);

// Error(code, msg, ErrnoText(errno)): for a system call that has just failed.
[[nodiscard]] Error ErrnoError(Code code, std::string msg);

}  // namespace nomad_bridge
