#include "plugin/cni/args.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

struct Pair {
  std::string_view text;
  std::string_view key;
  std::string_view value;
};

Error Bad(std::string_view pair, std::string_view allowed) {
  return {Code::kInvalidEnvironment,
          Format("CNI_ARGS has '{}'", Excerpt(pair)),
          Cat("allowed: ", allowed)};
}

// Splits at the first '=', because a value may contain '=', as query strings and base64 do.
Pair ParsePair(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    throw Bad(text, "pairs KEY=VALUE with ';' between them");
  }
  return {.text = text, .key = text.substr(0, equals), .value = text.substr(equals + 1)};
}

std::vector<Pair> Split(std::string_view text) {
  std::vector<Pair> pairs;
  while (!text.empty()) {
    const std::size_t semicolon = text.find(';');
    pairs.push_back(ParsePair(text.substr(0, semicolon)));
    if (semicolon == text.npos) {
      break;
    }
    text.remove_prefix(semicolon + 1);
    // The Go plugins also refuse a ';' at the end: a value may have been cut off there.
    if (text.empty()) {
      throw Bad(text, "pairs KEY=VALUE with ';' between them, none behind the last");
    }
  }
  return pairs;
}

bool ParseBool(const Pair& pair) {
  const std::string value = Lower(pair.value);
  const bool is_true = value == "1" || value == "true";
  if (!is_true && value != "0" && value != "false") {
    throw Bad(pair.text, "1, true, 0 or false");
  }
  return is_true;
}

// Returns nullopt for an empty value, as in Go.
std::optional<Mac> ParseMac(const Pair& pair) {
  const std::optional<Mac> mac = Mac::Parse(pair.value);
  if (!pair.value.empty() && (!mac || !mac->IsUnicast())) {
    throw Bad(pair.text, "a MAC of one station, as '02:42:ac:1a:40:02'");
  }
  return mac;
}

// Drops the prefix length after checking it: the range has the prefix length.
std::optional<Ip> ParseIp(const Pair& pair) {
  const std::string_view bare = pair.value.substr(0, pair.value.find('/'));
  const bool has_prefix = bare.size() != pair.value.size();
  const std::optional<Ip> ip = Ip::Parse(bare);
  if (!pair.value.empty() && (!ip || (has_prefix && !Cidr::Parse(pair.value)))) {
    throw Bad(pair.text, "an IP address, as '172.26.64.5'");
  }
  return ip;
}

// Returns a key of Nomad or Kubernetes that neither writes like this: a key not in capitals, or the
// second of two equal keys. Empty if there is none.
std::string FindForgedKey(const std::vector<Pair>& pairs) {
  std::set<std::string> seen;
  const auto forged = std::ranges::find_if(pairs, [&](const Pair& pair) {
    const std::string lower = Lower(pair.key);
    const bool is_theirs = lower.starts_with("nomad_") || lower.starts_with("k8s_");
    const bool is_capital =
        std::ranges::none_of(pair.key, [](char c) { return c >= 'a' && c <= 'z'; });
    return is_theirs && (!seen.insert(lower).second || !is_capital);
  });
  return forged == pairs.end() ? "" : ValidUtf8(forged->key);
}

// Returns whether the key is Nomad's or Kubernetes', which is allowed without IgnoreUnknown.
bool IsKnownLabel(const std::string& lower_key) {
  return lower_key.starts_with("nomad_") || lower_key.starts_with("k8s_pod_");
}

}  // namespace

Args ParseArgs(std::string_view text) {
  const std::vector<Pair> pairs = Split(text);
  Args args{.forged_key = FindForgedKey(pairs)};
  bool ignore_unknown = false;
  std::string unknown;
  for (const Pair& pair : pairs) {
    if (pair.key == "IgnoreUnknown") {
      ignore_unknown = ParseBool(pair);
    } else if (pair.key == "MAC") {
      args.mac = ParseMac(pair);
    } else if (pair.key == "IP") {
      args.ip = ParseIp(pair);
    } else {
      // A record is JSON, which is UTF-8 only, and comments must equal the record's labels.
      args.labels.push_back({ValidUtf8(pair.key), ValidUtf8(pair.value)});
      unknown += IsKnownLabel(Lower(pair.key)) ? "" : Cat(unknown.empty() ? "" : ";", pair.text);
    }
  }
  // Checked at the end, because IgnoreUnknown may be anywhere in the text.
  if (!ignore_unknown && !unknown.empty()) {
    throw Bad(unknown,
              "MAC, IP, NOMAD_* and K8S_POD_*, and any other key together with IgnoreUnknown=1");
  }
  args.labels = LastOfEach(std::move(args.labels));
  return args;
}

}  // namespace nomad_bridge::cni
