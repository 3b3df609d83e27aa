#include "plugin/cni/delegate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxShownBytes = 400;

std::string Named(const Delegate& delegate) {
  return Cat("IPAM plugin ", Quoted(delegate.type));
}

// A stranger's text in a message.
std::string Shown(std::string_view text) {
  return CutUtf8(Printable(text.substr(0, kMaxShownBytes)), kMaxShownBytes);
}

// An empty element is no folder: as the current one it would be a surprise.
std::vector<std::string> Folders(std::string_view path) {
  std::vector<std::string> folders;
  while (!path.empty()) {
    const std::size_t colon = std::min(path.find(':'), path.size());
    if (colon > 0) {
      folders.emplace_back(path.substr(0, colon));
    }
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  return folders;
}

// The words of Go's pkg/invoke.
void CheckType(const std::string& type) {
  if (type.empty()) {
    throw Error(Code::kInvalidConfig, "no plugin name provided", "'ipam.type' is empty");
  }
  if (type.find_first_of(std::string_view("/\0", 2)) != type.npos) {
    throw Error(Code::kInvalidConfig,
                Cat("invalid plugin name: ", Shown(type)),
                "'ipam.type' is a name in a folder of CNI_PATH, not a path");
  }
}

// Under any of our names but host-local's, which is never delegated, we would start ourselves with
// the same config, and so on.
void CheckIsAnother(const Delegate& delegate, const struct stat& found) {
  struct stat self {};
  if (::stat("/proc/self/exe", &self) == 0 && self.st_dev == found.st_dev &&
      self.st_ino == found.st_ino) {
    throw Error(Code::kInvalidConfig,
                Cat("invalid 'ipam.type': ", Quoted(Shown(delegate.type))),
                "that is this program, which would run itself for ever");
  }
}

// Never says "not found", which go-cni takes for success on DEL.
std::string FindPlugin(const Delegate& delegate) {
  CheckType(delegate.type);
  const std::vector<std::string> folders = Folders(delegate.cni_path);
  if (folders.empty()) {
    throw Error(Code::kInvalidEnvironment,
                "CNI_PATH is empty",
                Cat(Named(delegate), " is looked for in its folders"));
  }
  std::string list;
  for (const std::string& folder : folders) {
    std::string path = Cat(folder, '/', delegate.type);
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
      CheckIsAnother(delegate, found);
      return path;
    }
    list += Cat(list.empty() ? "" : " ", folder);
  }
  throw Error(Code::kInvalidConfig,
              Cat("failed to find plugin \"", Shown(delegate.type), "\" in path [", list, ']'),
              "'ipam.type' names it, CNI_PATH the folders");
}

std::vector<std::string> Environ(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (variables.find(std::string(text.substr(0, text.find('=')))) == variables.end()) {
      all.emplace_back(text);
    }
  }
  for (const auto& [name, value] : variables) {
    all.push_back(Cat(name, '=', value));
  }
  return all;
}

// The error document that a plugin which failed has printed; nullopt if it is none.
std::optional<Error> FindError(const std::string& out) {
  try {
    const json document = ParseJson(out, "stdout");
    const JsonView error(document, "");
    const std::optional<JsonView> code = error.Find("code");
    const std::string msg = error.FindText("msg").value_or(std::string());
    if (!code && msg.empty()) {
      return std::nullopt;  // a result, for example
    }
    constexpr int kMost = std::numeric_limits<int>::max();
    // Any number: the codes are the plugin's, and ours has room for them all.
    const auto number = static_cast<Code>(code ? code->Integer(0, kMost) : 0);
    return Error(number, msg, error.FindText("details").value_or(std::string()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string Words(const ExitInfo& exit) {
  switch (exit.how) {
    case End::kExit:
      return Cat("exit code ", exit.number);
    case End::kSignal:
      return Cat("killed by signal ", exit.number, " (", ::strsignal(exit.number), ')');
    case End::kOverdue:
      return "killed";
    case End::kTooMuch:
      return Cat("killed: too much on stdout, ", exit.out.size(), " bytes");
  }
  return "";
}

// How it ended and what it said, for an end without an error document.
std::string Details(const ExitInfo& exit) {
  std::string details = Words(exit);
  if (!exit.out.empty()) {
    details += Cat("; stdout: ", Shown(exit.out));
  }
  if (!exit.err.empty()) {
    // What it said last is nearest to the reason.
    const std::string_view err = exit.err;
    const std::size_t begin = err.size() > kMaxShownBytes ? err.size() - kMaxShownBytes : 0;
    details += Cat("; stderr: ", Shown(err.substr(begin)));
  }
  return details;
}

Error Failed(const Delegate& delegate, Verb verb, const ExitInfo& exit) {
  if (exit.how == End::kOverdue) {
    return {Code::kTryAgain,
            Cat(Named(delegate),
                " has not answered ",
                Text(verb),
                " in ",
                delegate.timeout.count(),
                " ms"),
            Details(exit)};
  }
  if (exit.how == End::kExit) {
    if (std::optional<Error> error = FindError(exit.out)) {
      return *error;
    }
  }
  return {Code::kDelegate, Cat(Named(delegate), " failed at ", Text(verb)), Details(exit)};
}

// Interfaces, and indices into them, are not IPAM's: a wrong one is no reason to fail.
void EraseMember(json& object, std::string_view key) {
  for (auto member = object.begin(); member != object.end();) {
    member = Lower(member.key()) == key ? object.erase(member) : std::next(member);
  }
}

json WithoutInterfaces(json answer) {
  if (!answer.is_object()) {
    return answer;
  }
  EraseMember(answer, "interfaces");
  for (auto& [key, ips] : answer.items()) {
    if (Lower(key) != "ips" || !ips.is_array()) {
      continue;
    }
    for (json& ip : ips) {
      if (ip.is_object()) {
        EraseMember(ip, "interface");
      }
    }
  }
  return answer;
}

Result ReadAnswer(std::string_view answer, std::string_view config_version) {
  const json document = WithoutInterfaces(ParseJson(answer, "stdout"));
  const JsonView object(document, "result");
  const std::string version = object.FindText("cniVersion").value_or(std::string(config_version));
  const std::vector<std::string>& known = SupportedVersions();
  if (std::find(known.begin(), known.end(), version) == known.end()) {
    throw object.Find("cniVersion")->Wrong(Cat("a version up to ", known.back()));
  }
  return ParseResult(document, version, "result");
}

}  // namespace

std::string RunDelegate(const Delegate& delegate,
                        Verb verb,
                        const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> all = variables;
  all["CNI_COMMAND"] = Text(verb);
  ExitInfo exit = RunSubprocess({.path = FindPlugin(delegate),
                                 .arguments = {},
                                 .environment = Environ(all),
                                 .input = delegate.config,
                                 .timeout = delegate.timeout});
  WriteBestEffort(STDERR_FILENO, exit.err);
  if (!exit.err.empty() && exit.err.back() != '\n') {
    WriteBestEffort(STDERR_FILENO, "\n");  // the next line there is another's
  }
  if (!exit.Succeeded()) {
    throw Failed(delegate, verb, exit);
  }
  return std::move(exit.out);
}

Result ParseDelegated(const Delegate& delegate,
                      std::string_view answer,
                      std::string_view config_version) {
  Result result;
  try {
    result = ReadAnswer(answer, config_version);
  } catch (const Error& error) {
    // What is wrong is not the config, as the error below says, but the plugin.
    throw Error(Code::kDelegate, Cat("cannot use the answer of ", Named(delegate)), error.what());
  }
  if (result.ips.empty()) {
    throw Error(Code::kDelegate,
                "IPAM plugin returned missing IP config",
                Cat(Named(delegate), " said: ", Shown(answer)));
  }
  return result;
}

}  // namespace nomad_bridge::cni
