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

// At the first '=': a query string or base64 is a value like any other.
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
    // The Go plugins refuse a ';' at the end too: a value may have been cut there.
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

// As in Go, an empty value is none.
std::optional<Mac> ParseMac(const Pair& pair) {
  const std::optional<Mac> mac = Mac::Parse(pair.value);
  if (!pair.value.empty() && (!mac || !mac->IsUnicast())) {
    throw Bad(pair.text, "a MAC of one station, as '02:42:ac:1a:40:02'");
  }
  return mac;
}

// The prefix length is the range's; one that is given is only checked.
std::optional<Ip> ParseIp(const Pair& pair) {
  const std::string_view bare = pair.value.substr(0, pair.value.find('/'));
  const bool has_prefix = bare.size() != pair.value.size();
  const std::optional<Ip> ip = Ip::Parse(bare);
  if (!pair.value.empty() && (!ip || (has_prefix && !Cidr::Parse(pair.value)))) {
    throw Bad(pair.text, "an IP address, as '172.26.64.5'");
  }
  return ip;
}

// Of the keys that Nomad and Kubernetes write themselves, in capitals and once each.
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

// Nomad's and Kubernetes' keys need no IgnoreUnknown.
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
      // A record is JSON, which holds UTF-8 only, and comments must equal the record's labels.
      args.labels.push_back({ValidUtf8(pair.key), ValidUtf8(pair.value)});
      unknown += IsKnownLabel(Lower(pair.key)) ? "" : Cat(unknown.empty() ? "" : ";", pair.text);
    }
  }
  // Decided at the end: IgnoreUnknown may stand anywhere.
  if (!ignore_unknown && !unknown.empty()) {
    throw Bad(unknown,
              "MAC, IP, NOMAD_* and K8S_POD_*, and any other key together with IgnoreUnknown=1");
  }
  args.labels = LastOfEach(std::move(args.labels));
  return args;
}

}  // namespace nomad_bridge::cni
