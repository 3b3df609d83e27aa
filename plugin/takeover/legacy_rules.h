// What the reference plugins hold for one attachment in tables of iptables-legacy, of which
// nf_tables knows nothing: the rules of plugin/takeover/nft_rules.h, in the text of its own tools.
//
// Pure     Texts in, texts out; who runs the tools is plugin/foreign/iptables_legacy.h.
// Known    As there: by the comment, by the addresses, and chains by the rules that jump to them;
//          that for masquerading by the comment of its own rules, too. An accept counts only as the
//          reference writes it, to the word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "plugin/takeover/legacy_save.h"
#include "plugin/takeover/nft_rules.h"

namespace nomad_bridge::takeover {

constexpr const char* kLegacyNat = "nat";
constexpr const char* kLegacyFilter = "filter";

struct LegacyReferenceRule {
  ReferencePart part = ReferencePart::kMasquerade;
  LegacyRule rule;
  std::string own_chain;  // that it jumps to, or stands in; nobody else does; empty: none
  std::vector<LegacyRule> own_rules;  // in that chain

  bool operator==(const LegacyReferenceRule&) const = default;
};

// All of `id` in `table`, of which `save` is what the tool prints.
[[nodiscard]] std::vector<LegacyReferenceRule> FindLegacyReferenceRules(
    const std::string& table,
    std::string_view save,
    const AttachmentId& id,
    const std::vector<Ip>& addresses);

// What the tool is told to remove `rules` and the chains of their own from `table`, all or nothing.
[[nodiscard]] std::string PlanLegacyRemoval(const std::string& table,
                                            const std::vector<LegacyReferenceRule>& rules);

// Whether `rules`, those of one family, have all that an ADD makes:
// for what `ip` sends out to leave with the node's address;
[[nodiscard]] bool HasMasquerade(const std::vector<LegacyReferenceRule>& rules, const Ip& ip);
// for `ip` to talk;
[[nodiscard]] bool HasForwardAccepts(const std::vector<LegacyReferenceRule>& rules, const Ip& ip);
// for `port` of the node to be published; `protocol` is "tcp", "udp" or "sctp".
[[nodiscard]] bool HasDnat(const std::vector<LegacyReferenceRule>& rules,
                           const std::string& protocol,
                           std::uint16_t port);

}  // namespace nomad_bridge::takeover
