#include <algorithm>

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// A rule of policy routing, and whether it matches a query.
class Selectors {
 public:
  Selectors(const fib_rule_hdr& head, const netlink::Attributes& attributes)
      : head_(head),
        attributes_(attributes),
        from_(Prefix(FRA_SRC, head.src_len)),
        to_(Prefix(FRA_DST, head.dst_len)),
        input_(attributes.Text(FRA_IIFNAME)),
        output_(attributes.Text(FRA_OIFNAME)),
        mark_(attributes.U32(FRA_FWMARK).value_or(0)),
        mask_(attributes.U32(FRA_FWMASK).value_or(0)),
        protocol_(attributes.U8(FRA_IP_PROTO).value_or(0)) {}

  // `input` is the name of the link that received the packet; "lo" if this machine sends it.
  [[nodiscard]] bool Match(const RouteQuery& query, const std::string& input) const {
    const bool is_matched = (!from_ || (query.source && from_->Contains(*query.source))) &&
                            (!to_ || to_->Contains(query.destination)) &&
                            (input_.empty() || input_ == input) && output_.empty() &&
                            ((query.mark ^ mark_) & mask_) == 0 && MatchFlow(query.flow);
    return is_matched != IsInverted();
  }

  // As `ip rule` prints it.
  [[nodiscard]] std::string Text(std::uint32_t table) const {
    const auto prefix = [](const Cidr& cidr) {
      return cidr == Cidr::Host(cidr.address) ? cidr.address.Text() : Cat(cidr);
    };
    std::string text = Cat(IsInverted() ? "not " : "", "from ", from_ ? prefix(*from_) : "all");
    text += to_ ? Cat(" to ", prefix(*to_)) : "";
    if (mask_ != 0) {
      constexpr int kDigits = 8;
      text += Format(" fwmark 0x{}/0x{}", Hex(mark_, kDigits), Hex(mask_, kDigits));
    }
    text += input_.empty() ? "" : Cat(" iif ", input_);
    return Cat(text, " lookup ", table);
  }

 private:
  [[nodiscard]] bool IsInverted() const { return (head_.flags & FIB_RULE_INVERT) != 0; }

  [[nodiscard]] std::optional<Cidr> Prefix(int attribute, int length) const {
    const std::optional<Ip> address = attributes_.Address(attribute);
    return address ? std::optional(Cidr{.address = *address, .prefix_length = length})
                   : std::nullopt;
  }

  [[nodiscard]] bool MatchFlow(const std::optional<Flow>& flow) const {
    const auto is_in = [&](int attribute, std::uint16_t port) {
      const auto range = attributes_.Number<fib_rule_port_range>(attribute);
      return !range || (flow && port >= range->start && port <= range->end);
    };
    return (protocol_ == 0 || (flow && flow->protocol == protocol_)) &&
           is_in(FRA_SPORT_RANGE, flow ? flow->source_port : std::uint16_t{0}) &&
           is_in(FRA_DPORT_RANGE, flow ? flow->destination_port : std::uint16_t{0});
  }

  const fib_rule_hdr& head_;
  const netlink::Attributes& attributes_;
  std::optional<Cidr> from_;
  std::optional<Cidr> to_;
  std::string input_;
  std::string output_;
  std::uint32_t mark_;
  std::uint32_t mask_;
  std::uint8_t protocol_;
};

}  // namespace

std::optional<RoutingRule> Socket::FindRule(const RouteQuery& query, std::uint32_t table) {
  if (table == RT_TABLE_MAIN || table == RT_TABLE_LOCAL || table == RT_TABLE_DEFAULT) {
    return std::nullopt;
  }
  const std::optional<Link> input =
      FindLink(query.input_link == 0 ? kLoopbackIndex : query.input_link);
  netlink::Message request(
      RTM_GETRULE, NLM_F_DUMP, fib_rule_hdr{.family = FamilyOf(query.destination)});
  std::optional<RoutingRule> found;
  netlink::ForEachMessage<fib_rule_hdr>(
      socket_.TransactOrThrow(request, "cannot list the routing rules"),
      [&](const fib_rule_hdr& head, const netlink::Attributes& attributes) {
        const Selectors selectors(head, attributes);
        if (!found && head.action == FR_ACT_TO_TBL &&
            attributes.U32(FRA_TABLE).value_or(head.table) == table && input &&
            selectors.Match(query, input->name)) {
          found = {.priority = attributes.U32(FRA_PRIORITY).value_or(0),
                   .text = selectors.Text(table)};
        }
      });
  return found;
}

}  // namespace nomad_bridge::rtnl
