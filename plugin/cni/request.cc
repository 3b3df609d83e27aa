#include "plugin/cni/request.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/version.h"

namespace nomad_bridge::cni {
namespace {

// GC on a node with 10,000 attachments sends about 1.5 MB.
constexpr std::size_t kMaxStdinBytes = 8 << 20;
constexpr std::string_view kPlainNameRule =
    "allowed: a letter or digit, then letters, digits, '_', '.' and '-'";
constexpr std::size_t kMaxIfnameBytes = 15;           // the kernel's IFNAMSIZ without the NUL
constexpr std::string_view kOldestVersion = "0.1.0";  // for a config that names none

constexpr Names<Verb, 6> kVerbs = {{{Verb::kAdd, "ADD"},
                                    {Verb::kDel, "DEL"},
                                    {Verb::kCheck, "CHECK"},
                                    {Verb::kGc, "GC"},
                                    {Verb::kStatus, "STATUS"},
                                    {Verb::kVersion, "VERSION"}}};

std::string GetText(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr ? value : "";
}

void CheckContainerId(const std::string& container_id) {
  if (!IsPlainName(container_id)) {
    throw Error(Code::kInvalidEnvironment,
                Format("CNI_CONTAINERID is '{}'", Excerpt(container_id)),
                std::string(kPlainNameRule));
  }
}

void CheckIfname(const std::string& name) {
  // A record is JSON, and could not store another name unchanged.
  if (!IsInterfaceName(name) || !IsUtf8(name)) {
    throw Error(Code::kInvalidEnvironment,
                Format("CNI_IFNAME is '{}'", Excerpt(name)),
                Cat("allowed: ", kInterfaceNameRule, ", in UTF-8"));
  }
}

bool HasWideSpace(std::string_view text) {
  // The white space of Go beyond ASCII.
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
  return std::ranges::any_of(kWideSpaces,
                             [&](std::string_view space) { return text.find(space) != text.npos; });
}

// As in the Go plugins, a malformed variable fails at once, and one error names all missing
// variables.
void ReadIdentity(const Environment& environment, Request& request) {
  std::string missing;
  const auto read = [&](const char* name, auto check) {
    std::string value = GetText(environment, name);
    if (value.empty()) {
      missing += Cat(missing.empty() ? "" : ",", name);
    } else {
      check(value);
    }
    return value;
  };
  request.id.container_id = read("CNI_CONTAINERID", CheckContainerId);
  request.netns_path = request.verb == Verb::kDel ? GetText(environment, "CNI_NETNS")
                                                  : read("CNI_NETNS", [](const std::string&) {});
  request.id.ifname = read("CNI_IFNAME", CheckIfname);
  if (!missing.empty()) {
    throw Error(Code::kInvalidEnvironment, Cat("required env variables [", missing, "] missing"));
  }
}

JsonPtr ParseConfigText(const std::string& text) {
  if (text.empty()) {
    throw Error(Code::kDecode, "stdin is empty", "it must hold the network config, a JSON object");
  }
  JsonPtr config = ParseJson(text, "stdin");
  if (const JsonView view(*config, ""); view.Kind() != "object") {
    throw Error(Code::kDecode,
                "the network config on stdin is not a JSON object",
                Cat("it is ", view.Shown()));
  }
  return config;
}

// Returns a string that every config has. As in the Go plugins, another type is kDecode, not
// kInvalidConfig.
std::string DecodeString(const JsonView& config, std::string_view key) {
  const JsonView view = config.Find(key);
  if (view && view.Kind() != "string") {
    throw Error(Code::kDecode, Format("invalid '{}': {}", key, view.Shown()), "allowed: a string");
  }
  return view ? view.String() : std::string();
}

// "missing network name" is Go's message, which the tests of runtimes check.
std::string DecodeName(const JsonView& config) {
  std::string name = DecodeString(config, "name");
  if (name.empty()) {
    throw Error(Code::kInvalidConfig, "missing network name");
  }
  if (!IsPlainName(name)) {
    throw Error(Code::kInvalidConfig,
                Format("invalid 'name': '{}'", Excerpt(name)),
                std::string(kPlainNameRule));
  }
  return name;
}

// Reads everything but the environment, from request.config_text. Reads the version first, so that
// errors are answered in that version, but checks it last, as in the Go plugins.
void ReadNetwork(Request& request, std::string_view command, std::string& reply_version) {
  request.config = ParseConfigText(request.config_text);
  if (request.verb != Verb::kAdd && request.verb != Verb::kCheck) {
    KeepLastOfEachKey(*request.config);  // what ADD refuses must not make DEL fail
  }
  const JsonView config(*request.config, "");
  const JsonView version = config.Find("cniVersion");
  if (version && version.Kind() == "string" && IsSupported(version.String())) {
    reply_version = version.String();
  }
  if (request.verb == Verb::kAdd && config.Has("plugins") && !config.Has("type")) {
    throw Error(
        Code::kInvalidConfig,
        "the config is a whole list: it has 'plugins'",
        "a plugin gets its own object of the list, with the list's 'name' and 'cniVersion'");
  }
  request.id.network = DecodeName(config);
  // Only now: the Go plugins check the verb after they have read the config.
  if (!FindNamed(kVerbs, command)) {
    throw Error(Code::kInvalidEnvironment, Cat("unknown CNI_COMMAND: ", Excerpt(command)));
  }
  request.cni_version = DecodeString(config, "cniVersion");
  if (request.cni_version.empty()) {
    request.cni_version = kOldestVersion;
    reply_version = kOldestVersion;
  }
  CheckVersion(request.cni_version, request.verb);
}

std::set<AttachmentId> ParseAttachments(const std::string& network,
                                        const std::vector<JsonView>& entries) {
  std::set<AttachmentId> attachments;
  for (const JsonView& entry : entries) {
    constexpr std::string_view kShape = "an object with 'containerID' and 'ifname'";
    const JsonView container_id = entry.Require("containerID", kShape);
    const JsonView ifname = entry.Require("ifname", kShape);
    attachments.insert({network, container_id.String(), ifname.String()});
  }
  return attachments;
}

}  // namespace

std::string_view Text(Verb verb) {
  return NameOf(kVerbs, verb);
}

Request ReadRequest(const Environment& environment, int stdin_fd, std::string& reply_version) {
  const std::string command = GetText(environment, "CNI_COMMAND");
  if (command.empty()) {
    throw Error(Code::kInvalidEnvironment, "required env variables [CNI_COMMAND] missing");
  }
  const std::optional<Verb> verb = FindNamed(kVerbs, command);
  // An unknown verb passes like a verb that needs no identity, until ReadNetwork refuses it.
  Request request{.verb = verb.value_or(Verb::kVersion)};
  // A runtime that sends VERSION may have no network yet, and stdin may be closed or have anything.
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
  request.config_text = ReadAll(stdin_fd, "stdin", kMaxStdinBytes, FromNow(kTimeout));
  ReadNetwork(request, command, reply_version);
  return request;
}

bool IsInterfaceName(std::string_view name) {
  // The kernel takes a name with '%' as a pattern: for "eth%d" it would choose a number.
  constexpr std::string_view kRefused = "/:% \t\n\v\f\r";
  return !name.empty() && name.size() <= kMaxIfnameBytes && name != "." && name != ".." &&
         name.find_first_of(kRefused) == name.npos && name.find('\0') == name.npos &&
         !HasWideSpace(name);
}

Request RequestFor(Verb verb, std::string config_text) {
  Request request{.verb = verb, .config_text = std::move(config_text)};
  std::string reply_version;  // not used: nobody waits for a reply
  ReadNetwork(request, Text(verb), reply_version);
  return request;
}

std::optional<std::set<AttachmentId>> FindValidAttachments(const Request& request) {
  const JsonView config(*request.config, "");
  for (const char* const key :
       {"cni.dev/valid-attachments", "cni.dev/attachments"}) {  // the latter: libcni 1.2
    if (config.Has(key)) {
      return ParseAttachments(request.id.network, config.FindArray(key));
    }
  }
  return std::nullopt;
}

}  // namespace nomad_bridge::cni
