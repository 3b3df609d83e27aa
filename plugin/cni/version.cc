#include "plugin/cni/version.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

using Numbers = std::array<int, 3>;

// Returns the numbers of a version: "1", "1.0" and "1.0.0" are versions.
std::optional<Numbers> ParseVersion(std::string_view text) {
  Numbers numbers{};
  for (int& number : numbers) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + dot, number);
    if (error != std::errc() || end != text.data() + dot || number < 0) {
      return std::nullopt;
    }
    if (dot == text.size()) {
      return numbers;
    }
    text.remove_prefix(dot + 1);
  }
  return std::nullopt;
}

// Refuses CHECK, GC and STATUS for a config of an older version than the verb.
void CheckVerbIsIn(const std::string& version, Verb verb) {
  const std::optional<Numbers> numbers = ParseVersion(version);
  if (!numbers) {
    throw Error(Code::kDecode,
                Format("invalid 'cniVersion': '{}'", Excerpt(version)),
                "allowed: up to three numbers with '.' between them");
  }
  if (*numbers < *ParseVersion(verb == Verb::kCheck ? "0.4.0" : "1.1.0")) {
    throw Error(Code::kIncompatibleVersion, Cat("config version does not allow ", Text(verb)));
  }
  if (*numbers > *ParseVersion(SupportedVersions().back())) {
    throw Error(Code::kIncompatibleVersion, Cat("plugin version does not allow ", Text(verb)));
  }
}

std::string Joined(std::string_view quote, std::string_view separator) {
  return nomad_bridge::Joined(SupportedVersions(), separator, [&](const std::string& version) {
    return Cat(quote, version, quote);
  });
}

}  // namespace

const std::vector<std::string>& SupportedVersions() {
  static const std::vector<std::string> kVersions = {
      "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
  return kVersions;
}

bool IsSupported(std::string_view version) {
  return Contains(SupportedVersions(), version);
}

bool IsAtLeast(std::string_view version, std::string_view other) {
  return ParseVersion(version) >= ParseVersion(other);
}

void CheckVersion(const std::string& version, Verb verb) {
  if (verb != Verb::kAdd && verb != Verb::kDel) {
    CheckVerbIsIn(version, verb);
  }
  if (!IsSupported(version)) {
    throw Error(
        Code::kIncompatibleVersion,
        "incompatible CNI versions",
        Format("config is \"{}\", plugin supports [{}]", Excerpt(version), Joined("\"", " ")));
  }
}

void PrintVersions(int out) {
  WriteAll(out,
           Format(R"({"cniVersion":"{}","supportedVersions":[{}]})"
                  "\n",
                  SupportedVersions().back(),
                  Joined("\"", ",")),
           "stdout");
}

std::string_view ProgramVersion() {
  return NOMAD_BRIDGE_VERSION;
}

// Nomad's fingerprint takes the first word that looks like a version. So our version comes before
// the protocol's versions, and has no pre-release suffix.
void PrintVersionBanner(const PluginType& type, int err) {
  WriteBestEffort(err,
                  Format("CNI {} plugin v{}\nCNI protocol versions supported: {}\n",
                         type.name,
                         ProgramVersion(),
                         Joined("", ", ")));
}

}  // namespace nomad_bridge::cni
