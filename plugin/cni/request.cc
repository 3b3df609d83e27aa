#include "plugin/cni/request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "plugin/cni/json.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::json;

// GC of a node with 10,000 attachments sends about 1.5 MB.
constexpr std::size_t kMaxStdinBytes = 8 << 20;
constexpr std::size_t kMaxIfnameBytes = 15;  // the kernel's IFNAMSIZ, less its terminator
constexpr std::size_t kMaxShownBytes = 160;
constexpr std::string_view kOldestVersion = "0.1.0";  // of a config that names none

constexpr std::array kVerbs =
    {Verb::kAdd, Verb::kDel, Verb::kCheck, Verb::kGc, Verb::kStatus, Verb::kVersion};

// A stranger's text in a message.
std::string Shown(std::string_view text) {
  return CutUtf8(Printable(text), kMaxShownBytes);
}

std::optional<Verb> FindVerb(std::string_view command) {
  const auto verb =
      std::find_if(kVerbs.begin(), kVerbs.end(), [&](Verb each) { return Text(each) == command; });
  return verb != kVerbs.end() ? std::optional(*verb) : std::nullopt;
}

// Container ids and network names: [A-Za-z0-9][A-Za-z0-9_.-]*. They become file names.
bool IsPlainName(std::string_view text) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  return !text.empty() && is_alphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alphanumeric(c) || c == '_' || c == '.' || c == '-';
         });
}

void CheckContainerId(const std::string& container_id) {
  if (!IsPlainName(container_id)) {
    throw Error(Code::kInvalidEnvironment,
                Cat("CNI_CONTAINERID is ", Quoted(Shown(container_id))),
                "allowed: a letter or digit, then letters, digits, '_', '.' and '-'");
  }
}

void CheckIfname(const std::string& name) {
  // A record, which is JSON, would not give anything else back as it was.
  if (!IsInterfaceName(name) || !IsUtf8(name)) {
    throw Error(Code::kInvalidEnvironment,
                Cat("CNI_IFNAME is ", Quoted(Shown(name))),
                Cat("allowed: ", kInterfaceNameRule, ", in UTF-8"));
  }
}

struct Variable {
  const char* name;
  std::string* value;
  void (*check)(const std::string&);
};

// In the order of the Go plugins: a malformed variable fails at once, missing ones are named
// together. CNI_PATH, which they demand, is optional in the specification: only a delegated IPAM
// plugin is looked for there.
void ReadIdentity(const Environment& environment, Request& request) {
  const std::array<Variable, 3> required = {
      Variable{"CNI_CONTAINERID", &request.id.container_id, CheckContainerId},
      Variable{"CNI_NETNS", &request.netns_path, nullptr},
      Variable{"CNI_IFNAME", &request.id.ifname, CheckIfname}};
  std::string missing;
  for (const Variable& variable : required) {
    const char* const text = environment(variable.name);
    *variable.value = text != nullptr ? text : "";
    const bool is_optional = request.verb == Verb::kDel && variable.value == &request.netns_path;
    if (variable.value->empty() && !is_optional) {
      missing += Cat(missing.empty() ? "" : ",", variable.name);
    } else if (variable.check != nullptr) {
      variable.check(*variable.value);
    }
  }
  if (!missing.empty()) {
    throw Error(Code::kInvalidEnvironment, Cat("required env variables [", missing, "] missing"));
  }
}

json ParseConfigText(const std::string& text) {
  if (text.empty()) {
    throw Error(Code::kDecode, "stdin is empty", "it must hold the network config, a JSON object");
  }
  json config = ParseJson(text, "stdin");
  if (!config.is_object()) {
    throw Error(Code::kDecode,
                "the network config on stdin is no JSON object",
                Cat("it is ", JsonView(config, "").Shown()));
  }
  return config;
}

// A text that every config has; the Go plugins fail to decode anything else, which is another error
// than a bad value.
std::string DecodeText(const json& config, std::string_view key) {
  const std::optional<JsonView> view = JsonView(config, "").Find(key);
  if (view && !view->value().is_string()) {
    throw Error(
        Code::kDecode, Cat("invalid ", Quoted(key), ": ", view->Shown()), "allowed: a string");
  }
  return view ? view->String() : std::string();
}

// Go's words for a missing name: runtimes' tests know them.
std::string DecodeName(const json& config) {
  std::string name = DecodeText(config, "name");
  if (name.empty()) {
    throw Error(Code::kInvalidConfig, "missing network name");
  }
  if (!IsPlainName(name)) {
    throw Error(Code::kInvalidConfig,
                Cat("invalid 'name': ", Quoted(Shown(name))),
                "allowed: a letter or digit, then letters, digits, '_', '.' and '-'");
  }
  return name;
}

using VersionNumbers = std::tuple<int, int, int>;

// "1", "1.0" and "1.0.0" are versions.
std::optional<VersionNumbers> ParseVersion(std::string_view text) {
  std::array<int, 3> numbers{};
  for (std::size_t part = 0; part < numbers.size(); ++part) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + dot, numbers.at(part));
    if (error != std::errc() || end != text.data() + dot || numbers.at(part) < 0) {
      return std::nullopt;
    }
    if (dot == text.size()) {
      return VersionNumbers{numbers[0], numbers[1], numbers[2]};
    }
    text.remove_prefix(dot + 1);
  }
  return std::nullopt;
}

// CHECK, GC and STATUS came later: an older config cannot ask for them.
void CheckVerbIsIn(const std::string& version, Verb verb) {
  const std::optional<VersionNumbers> numbers = ParseVersion(version);
  if (!numbers) {
    throw Error(Code::kDecode,
                Cat("invalid 'cniVersion': ", Quoted(Shown(version))),
                "allowed: up to three numbers with '.' between them");
  }
  if (*numbers < *ParseVersion(verb == Verb::kCheck ? "0.4.0" : "1.1.0")) {
    throw Error(Code::kIncompatibleVersion, Cat("config version does not allow ", Text(verb)));
  }
  if (*numbers > *ParseVersion(SupportedVersions().back())) {
    throw Error(Code::kIncompatibleVersion, Cat("plugin version does not allow ", Text(verb)));
  }
}

bool IsSupported(const std::string& version) {
  const std::vector<std::string>& all = SupportedVersions();
  return std::find(all.begin(), all.end(), version) != all.end();
}

// Membership is exact: "1.1" is no version of a config. ADD and DEL ask only that.
void CheckVersion(const std::string& version, Verb verb) {
  if (verb != Verb::kAdd && verb != Verb::kDel) {
    CheckVerbIsIn(version, verb);
  }
  if (IsSupported(version)) {
    return;
  }
  std::string list;
  for (const std::string& each : SupportedVersions()) {
    list += Cat(list.empty() ? "" : " ", '"', each, '"');
  }
  throw Error(Code::kIncompatibleVersion,
              "incompatible CNI versions",
              Cat("config is \"", Shown(version), "\", plugin supports [", list, ']'));
}

std::string GetText(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr ? value : "";
}

// Everything below the environment. The version is looked at first, so that whatever is wrong is
// answered in it, but judged last, as in the Go plugins.
void ReadNetwork(Request& request,
                 const std::string& command,
                 int stdin_fd,
                 std::string& said_version) {
  request.config_text = ReadAll(stdin_fd, "stdin", kMaxStdinBytes);
  request.config = ParseConfigText(request.config_text);
  const std::optional<JsonView> version = JsonView(request.config, "").Find("cniVersion");
  if (version && version->value().is_string() && IsSupported(version->String())) {
    said_version = version->String();
  }
  request.id.network = DecodeName(request.config);
  // Only now: the Go plugins look the verb up when they have read the config.
  if (!FindVerb(command)) {
    throw Error(Code::kInvalidEnvironment, Cat("unknown CNI_COMMAND: ", Shown(command)));
  }
  request.cni_version = DecodeText(request.config, "cniVersion");
  if (request.cni_version.empty()) {
    request.cni_version = kOldestVersion;
    said_version = kOldestVersion;
  }
  CheckVersion(request.cni_version, request.verb);
}

}  // namespace

std::string_view Text(Verb verb) {
  switch (verb) {
    case Verb::kAdd:
      return "ADD";
    case Verb::kDel:
      return "DEL";
    case Verb::kCheck:
      return "CHECK";
    case Verb::kGc:
      return "GC";
    case Verb::kStatus:
      return "STATUS";
    case Verb::kVersion:
      return "VERSION";
  }
  return "";
}

Request ReadRequest(const Environment& environment, int stdin_fd, std::string& said_version) {
  const std::string command = GetText(environment, "CNI_COMMAND");
  if (command.empty()) {
    throw Error(Code::kInvalidEnvironment, "required env variables [CNI_COMMAND] missing");
  }
  const std::optional<Verb> verb = FindVerb(command);
  // An unknown verb passes as one that needs no identity, until ReadNetwork refuses it.
  Request request{.verb = verb.value_or(Verb::kVersion)};
  // Asked by runtimes that have no network yet, with stdin closed or full of something else.
  if (verb == Verb::kVersion) {
    request.cni_version = SupportedVersions().back();
    return request;
  }
  if (verb == Verb::kAdd || verb == Verb::kDel || verb == Verb::kCheck) {
    ReadIdentity(environment, request);
  }
  request.args = GetText(environment, "CNI_ARGS");
  request.cni_path = GetText(environment, "CNI_PATH");
  const std::string override_text = Lower(GetText(environment, "CNI_NETNS_OVERRIDE"));
  request.netns_override = override_text == "1" || override_text == "true";
  ReadNetwork(request, command, stdin_fd, said_version);
  return request;
}

const std::vector<std::string>& SupportedVersions() {
  static const std::vector<std::string> kVersions = {
      "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
  return kVersions;
}

bool IsAtLeast(std::string_view version, std::string_view other) {
  return ParseVersion(version) >= ParseVersion(other);
}

bool IsInterfaceName(std::string_view name) {
  // What Go counts as white space beyond ASCII. The kernel knows only bytes, and refuses 0xa0.
  constexpr std::array<std::string_view, 19> kWideSpaces = {"\u0085",
                                                            "\u00a0",
                                                            "\u1680",
                                                            "\u2000",
                                                            "\u2001",
                                                            "\u2002",
                                                            "\u2003",
                                                            "\u2004",
                                                            "\u2005",
                                                            "\u2006",
                                                            "\u2007",
                                                            "\u2008",
                                                            "\u2009",
                                                            "\u200a",
                                                            "\u2028",
                                                            "\u2029",
                                                            "\u202f",
                                                            "\u205f",
                                                            "\u3000"};
  // '%' makes a pattern of the name: for "eth%d" the kernel would choose a number.
  constexpr std::string_view kRefused = "/:% \t\n\v\f\r";
  return !name.empty() && name.size() <= kMaxIfnameBytes && name != "." && name != ".." &&
         name.find_first_of(kRefused) == name.npos && name.find('\0') == name.npos &&
         std::none_of(kWideSpaces.begin(), kWideSpaces.end(), [&](std::string_view space) {
           return name.find(space) != name.npos;
         });
}

}  // namespace nomad_bridge::cni
