#include "plugin/cni/delegate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "plugin/cni/json.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

constexpr std::size_t kMaxPrintedBytes = 400;

std::string Named(const DelegatedIpam& ipam) {
  return Format("IPAM plugin '{}'", ipam.type);
}

// Throws with the same messages as Go's pkg/invoke.
void CheckType(const std::string& type) {
  if (type.empty()) {
    throw Error(Code::kInvalidConfig, "no plugin name provided", "'ipam.type' is empty");
  }
  if (type.find_first_of(std::string_view("/\0", 2)) != type.npos) {
    throw Error(Code::kInvalidConfig,
                Cat("invalid plugin name: ", Excerpt(type)),
                "'ipam.type' is a name in a directory of CNI_PATH, not a path");
  }
}

// Refuses a plugin that is this program. Under any of our names but host-local, which is never
// delegated, this program would run itself with the same config, and so on without an end.
void CheckIsAnother(const std::string& type, const struct stat& found) {
  struct stat self {};
  if (::stat("/proc/self/exe", &self) == 0 && self.st_dev == found.st_dev &&
      self.st_ino == found.st_ino) {
    throw Error(Code::kInvalidConfig,
                Format("invalid 'ipam.type': '{}'", Excerpt(type)),
                "that is this program, which would run itself for ever");
  }
}

// Returns the plugin's path. No message may contain "not found": go-cni takes it for success on
// DEL.
std::string FindPlugin(const DelegatedIpam& ipam) {
  CheckType(ipam.type);
  // Without empty directories, which exec(3) would take for the current directory.
  const std::vector<std::string> directories = SplitFields(ipam.cni_path, ":");
  for (const std::string& directory : directories) {
    std::string path = Cat(directory, '/', ipam.type);
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
      CheckIsAnother(ipam.type, found);
      return path;
    }
  }
  if (directories.empty()) {
    throw Error(Code::kInvalidEnvironment,
                "CNI_PATH is empty",
                Cat(Named(ipam), " is looked for in its directories"));
  }
  throw Error(Code::kInvalidConfig,
              Format("failed to find plugin \"{}\" in path [{}]",
                     Excerpt(ipam.type),
                     Joined(directories, " ")),
              "'ipam.type' names it, CNI_PATH the directories");
}

// Returns our environment, in which `variables` replace variables of the same name.
std::vector<std::string> Environ(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!variables.contains(text.substr(0, text.find('=')))) {
      all.push_back(text);
    }
  }
  for (const auto& [name, value] : variables) {
    all.push_back(Cat(name, '=', value));
  }
  return all;
}

// Returns the error document that a failed plugin has printed; nullopt if the output is none.
std::optional<Error> FindError(const std::string& out) {
  try {
    const JsonPtr document = ParseJson(out, "stdout");
    const JsonView error(*document, "");
    // Any number is allowed: plugins have codes of their own, and our type can hold them.
    const auto code = error.FindInteger<int>("code", std::numeric_limits<int>::max());
    const std::string msg = error.FindString("msg").value_or(std::string());
    if (!code && msg.empty()) {
      return std::nullopt;  // for example a result
    }
    return Error(static_cast<Code>(code.value_or(0)),
                 msg,
                 error.FindString("details").value_or(std::string()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns how the plugin ended and what it printed. Used if it printed no error document.
std::string Details(const ExitInfo& exit) {
  std::string details = exit.HowItEnded();
  if (!exit.out.empty()) {
    details += Cat("; stdout: ", Excerpt(exit.out, kMaxPrintedBytes));
  }
  if (!exit.err.empty()) {
    // The end of stderr: the last lines most likely name the reason.
    const std::size_t begin = exit.err.size() - std::min(exit.err.size(), kMaxPrintedBytes);
    details += Cat("; stderr: ", Excerpt(exit.err.substr(begin), kMaxPrintedBytes));
  }
  return details;
}

Error Failed(const DelegatedIpam& ipam,
             Verb verb,
             const ExitInfo& exit,
             std::chrono::milliseconds timeout) {
  if (exit.how == End::kOverdue) {
    return {Code::kTryAgain,
            Format("{} has not answered {} in {} ms", Named(ipam), Text(verb), timeout.count()),
            Details(exit)};
  }
  const std::optional<Error> error = exit.how == End::kExit ? FindError(exit.out) : std::nullopt;
  return error.value_or(
      Error(Code::kDelegate, Format("{} failed at {}", Named(ipam), Text(verb)), Details(exit)));
}

}  // namespace

std::optional<DelegatedIpam> FindDelegatedIpam(const Request& request,
                                               const std::string& ipam_type) {
  if (ipam_type.empty() || ipam_type == kHostLocal) {
    return std::nullopt;
  }
  return DelegatedIpam{.type = ipam_type,
                       .cni_path = request.cni_path,
                       .args = request.args,
                       .config = request.config_text};
}

DelegatedIpam WithConfigOf(const Request& request,
                           const std::string& ipam_type,
                           DelegatedIpam recorded) {
  if (ipam_type == recorded.type) {
    recorded.cni_path = request.cni_path;
    recorded.config = request.config_text;
    if (!request.args.empty()) {
      recorded.args = request.args;
    }
  }
  return recorded;
}

std::string InvokeIpam(const DelegatedIpam& ipam,
                       Verb verb,
                       const AttachmentId& id,
                       const std::string& netns_path,
                       std::chrono::milliseconds timeout) {
  const std::map<std::string, std::string> variables = {{"CNI_COMMAND", std::string(Text(verb))},
                                                        {"CNI_CONTAINERID", id.container_id},
                                                        {"CNI_NETNS", netns_path},
                                                        {"CNI_IFNAME", id.ifname},
                                                        {"CNI_ARGS", ipam.args},
                                                        {"CNI_PATH", ipam.cni_path}};
  ExitInfo exit = RunSubprocess({.path = FindPlugin(ipam),
                                 .environment = Environ(variables),
                                 .input = ipam.config,
                                 .timeout = timeout});
  // Ends the last line, because the next line in the log is not the plugin's.
  const bool is_cut = !exit.err.empty() && exit.err.back() != '\n';
  WriteLog(exit.err + (is_cut ? "\n" : ""));
  if (!exit.Succeeded()) {
    throw Failed(ipam, verb, exit, timeout);
  }
  return std::move(exit.out);
}

void InvokeIpamOf(const Request& request, const std::string& ipam_type, Verb verb) {
  if (const std::optional<DelegatedIpam> ipam = FindDelegatedIpam(request, ipam_type)) {
    InvokeIpam(*ipam, verb, request.id, request.netns_path);
  }
}

Result ParseDelegated(const DelegatedIpam& ipam,
                      std::string_view answer,
                      std::string_view config_version) {
  Result result;
  try {
    const JsonPtr document = ParseJson(answer, "stdout");
    const JsonView object(*document, "result");
    const std::string version =
        object.FindString("cniVersion").value_or(std::string(config_version));
    if (!IsSupported(version)) {
      throw object.Find("cniVersion").Wrong(Cat("a version up to ", SupportedVersions().back()));
    }
    result = ParseIpamResult(object, version);
  } catch (const Error& error) {
    // Not kInvalidConfig, which the caught error has: the plugin is wrong, not the config.
    throw Error(Code::kDelegate, Cat("cannot use the answer of ", Named(ipam)), error.what());
  }
  if (result.ips.empty()) {
    throw Error(Code::kDelegate,
                "IPAM plugin returned missing IP config",
                Format("{} printed: {}", Named(ipam), Excerpt(answer, kMaxPrintedBytes)));
  }
  return result;
}

}  // namespace nomad_bridge::cni
