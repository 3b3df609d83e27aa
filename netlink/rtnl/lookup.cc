#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <span>

#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// The states of a neighbour entry in which packets are sent by it.
constexpr int kUsed = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;

struct Blocker {
  unsigned char route_type;
  unsigned char rule_action;
  const char* name;
};

constexpr std::array kBlockers = {Blocker{RTN_BLACKHOLE, FR_ACT_BLACKHOLE, "blackhole"},
                                  Blocker{RTN_UNREACHABLE, FR_ACT_UNREACHABLE, "unreachable"},
                                  Blocker{RTN_PROHIBIT, FR_ACT_PROHIBIT, "prohibit"}};

// "" if it is none.
std::string BlockerOf(unsigned char Blocker::*member, unsigned char value) {
  for (const Blocker& blocker : kBlockers) {
    if (blocker.*member == value) {
      return blocker.name;
    }
  }
  return {};
}

// Of what an entry's nda_cacheinfo says in hundredths of a second.
std::chrono::milliseconds AgeIn(std::span<const std::uint8_t> bytes) {
  constexpr int kMilliseconds = 10;
  nda_cacheinfo info{};
  if (bytes.size() >= sizeof info) {
    std::memcpy(&info, bytes.data(), sizeof info);
  }
  return std::chrono::milliseconds(std::int64_t{info.ndm_updated} * kMilliseconds);
}

// nullopt: any address
std::optional<Cidr> PrefixIn(const netlink::Attributes& attributes, int attribute, int length) {
  const std::optional<Ip> address = attributes.Address(attribute);
  return address ? std::optional<Cidr>({.address = *address, .prefix_length = length})
                 : std::nullopt;
}

// nullopt: any port.
bool HasPort(const std::optional<fib_rule_port_range>& ports, std::uint16_t port) {
  return !ports || (ports->start <= port && port <= ports->end);
}

// As ip(8) takes it: "sport 80", "dport 8000-8080".
std::string PortWords(std::string_view what, const fib_rule_port_range& ports) {
  return ports.start == ports.end ? Format("{} {}", what, ports.start)
                                  : Format("{} {}-{}", what, ports.start, ports.end);
}

// A rule of policy routing.
struct ListedRule {
  std::string action;       // of one that drops
  std::uint32_t table = 0;  // of one that looks one up
  std::uint32_t priority = 0;
  std::optional<Cidr> from;
  std::optional<Cidr> to;
  std::string iifname;
  std::string oifname;
  std::uint8_t protocol = 0;  // 0: any
  std::optional<fib_rule_port_range> source_ports;
  std::optional<fib_rule_port_range> destination_ports;
  std::uint32_t mark = 0;
  std::uint32_t mark_mask = 0;     // 0: it does not ask for one
  bool is_inverted = false;        // it holds for all that its selector does not match
  bool has_more = false;           // asks for more than `words` say
  std::vector<std::string> words;  // its selector

  // What is looked up has no output link yet.
  [[nodiscard]] bool Matches(const RouteQuery& query, const std::string& input) const {
    const bool is_selected = (!to || to->Contains(query.destination)) &&
                             (!from || (query.source && from->Contains(*query.source))) &&
                             (iifname.empty() || iifname == input) && oifname.empty() &&
                             MatchesFlow(query.flow.value_or(Flow())) &&
                             (query.mark.value_or(0) & mark_mask) == mark;
    return is_selected != is_inverted;
  }

  [[nodiscard]] bool IsAboutFlow() const {
    return protocol != 0 || source_ports || destination_ports;
  }

  [[nodiscard]] bool MatchesFlow(const Flow& flow) const {
    return (protocol == 0 || protocol == flow.protocol) &&
           HasPort(source_ports, flow.source_port) &&
           HasPort(destination_ports, flow.destination_port);
  }

  // By action, priority and selector, of which the kernel compares what is given.
  [[nodiscard]] bool IsFoundFirstAt(const ListedRule& other) const {
    return other.action == action && other.priority == priority &&
           std::ranges::all_of(words,
                               [&](const auto& word) { return Contains(other.words, word); });
  }
};

ListedRule ReadRule(const fib_rule_hdr& head, const netlink::Attributes& attributes) {
  const bool is_lookup = head.action == FR_ACT_TO_TBL;
  ListedRule rule{.action = BlockerOf(&Blocker::rule_action, head.action),
                  .table = is_lookup ? attributes.U32(FRA_TABLE).value_or(head.table) : 0,
                  .priority = attributes.U32(FRA_PRIORITY).value_or(0),
                  .from = PrefixIn(attributes, FRA_SRC, head.src_len),
                  .to = PrefixIn(attributes, FRA_DST, head.dst_len),
                  .iifname = attributes.Text(FRA_IIFNAME),
                  .oifname = attributes.Text(FRA_OIFNAME),
                  .protocol = attributes.Number<std::uint8_t>(FRA_IP_PROTO).value_or(0),
                  .source_ports = attributes.Number<fib_rule_port_range>(FRA_SPORT_RANGE),
                  .destination_ports = attributes.Number<fib_rule_port_range>(FRA_DPORT_RANGE),
                  .mark = attributes.U32(FRA_FWMARK).value_or(0),
                  .mark_mask = attributes.U32(FRA_FWMASK).value_or(0),
                  .is_inverted = (head.flags & FIB_RULE_INVERT) != 0};
  const auto add = [&](const std::string& word) {
    if (!word.empty()) {
      rule.words.push_back(word);
    }
  };
  add(rule.is_inverted ? "not" : "");
  add(rule.from ? Cat("from ", *rule.from) : "");
  add(rule.to ? Cat("to ", *rule.to) : "");
  add(rule.iifname.empty() ? "" : Cat("iif ", ShellWord(rule.iifname)));
  add(rule.oifname.empty() ? "" : Cat("oif ", ShellWord(rule.oifname)));
  add(rule.mark_mask != 0 ? Cat("fwmark ", rule.mark, '/', rule.mark_mask) : "");
  add(rule.protocol != 0 ? Cat("ipproto ", int{rule.protocol}) : "");
  add(rule.source_ports ? PortWords("sport", *rule.source_ports) : "");
  add(rule.destination_ports ? PortWords("dport", *rule.destination_ports) : "");
  constexpr std::array kMore = {FRA_TUN_ID, FRA_L3MDEV, FRA_UID_RANGE};
  // The kernel always gives this one, ~0 where it is not asked for.
  constexpr std::uint32_t kNotSuppressed = ~0U;
  rule.has_more =
      head.tos != 0 ||
      attributes.U32(FRA_SUPPRESS_PREFIXLEN).value_or(kNotSuppressed) != kNotSuppressed ||
      std::ranges::any_of(kMore,
                          [&](int attribute) { return !attributes.Bytes(attribute).empty(); });
  return rule;
}

std::vector<ListedRule> ListRules(netlink::RequestSocket& socket, Family family) {
  std::vector<ListedRule> rules;
  const netlink::Message request(RTM_GETRULE, NLM_F_DUMP, fib_rule_hdr{.family = NumberOf(family)});
  netlink::ForEachMessage<fib_rule_hdr>(
      socket.TransactOrThrow(request, "cannot list the rules of policy routing"),
      [&](const fib_rule_hdr& head, const netlink::Attributes& attributes) {
        rules.push_back(ReadRule(head, attributes));
      });
  return rules;
}

// Those of `all` that select the packets of `query`, up to the first one about marks.
std::vector<ListedRule> RulesOf(const std::vector<ListedRule>& all,
                                const RouteQuery& query,
                                const std::string& input) {
  std::vector<ListedRule> rules;
  for (const ListedRule& rule : all) {
    if (rule.mark_mask != 0 && !query.mark) {
      break;
    }
    if (rule.Matches(query, input)) {
      rules.push_back(rule);
    }
  }
  return rules;
}

// A route to an address, of any type.
struct ListedRoute {
  unsigned char type = RTN_UNSPEC;
  Cidr destination;
  std::uint32_t table = 0;
  std::uint32_t priority = 0;

  // In one table.
  [[nodiscard]] bool IsBefore(const ListedRoute& other) const {
    return destination.prefix_length != other.destination.prefix_length
               ? destination.prefix_length > other.destination.prefix_length
               : priority < other.priority;
  }
};

// Of each table the one that packets to `address` take.
std::vector<ListedRoute> ListRoutesTo(netlink::RequestSocket& socket, const Ip& address) {
  std::map<std::uint32_t, ListedRoute> first;
  const netlink::Message request(RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = FamilyOf(address)});
  netlink::ForEachMessage<rtmsg>(
      socket.TransactOrThrow(request, "cannot list the routes"),
      [&](const rtmsg& head, const netlink::Attributes& attributes) {
        const Cidr everywhere = {.address = address, .prefix_length = 0};
        const ListedRoute route = {
            .type = head.rtm_type,
            .destination = PrefixIn(attributes, RTA_DST, head.rtm_dst_len).value_or(everywhere),
            .table = attributes.U32(RTA_TABLE).value_or(head.rtm_table),
            .priority = attributes.U32(RTA_PRIORITY).value_or(0)};
        if (route.destination.Contains(address)) {
          const auto [known, is_new] = first.try_emplace(route.table, route);
          if (!is_new && route.IsBefore(known->second)) {
            known->second = route;
          }
        }
      });
  std::vector<ListedRoute> routes;
  routes.reserve(first.size());
  for (const auto& [table, route] : first) {
    routes.push_back(route);
  }
  return routes;
}

// The kernel takes no flow of another protocol.
void PutFlow(netlink::Message& request, const std::optional<Flow>& flow) {
  if (!flow || (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP)) {
    return;
  }
  request.PutU8(RTA_IP_PROTO, flow->protocol);
  request.PutU16(RTA_SPORT, htons(flow->source_port));
  request.PutU16(RTA_DPORT, htons(flow->destination_port));
}

}  // namespace

RouteAnswer Socket::LookUpRoute(const RouteQuery& query) {
  netlink::Message request = GetRouteRequest(query.destination, query.source);
  if (query.input_link != 0) {
    request.PutU32(RTA_IIF, static_cast<std::uint32_t>(query.input_link));
  }
  if (query.mark.value_or(0) != 0) {
    request.PutU32(RTA_MARK, *query.mark);
  }
  PutFlow(request, query.flow);
  const netlink::Reply reply = socket_.TransactOrThrow(
      request,
      Cat("cannot look up the route to ", query.destination),
      {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EOPNOTSUPP, EXDEV, ENODEV});
  RouteAnswer answer{.error = reply.error};
  netlink::ForEachMessage<rtmsg>(
      reply, [&](const rtmsg& head, const netlink::Attributes& attributes) {
        // IPv6 answers with such a route, where IPv4 refuses.
        answer.error = BlockerOf(&Blocker::route_type, head.rtm_type).empty() ? 0 : EHOSTUNREACH;
        answer.link = attributes.Number<int>(RTA_OIF).value_or(0);
        answer.table = attributes.U32(RTA_TABLE).value_or(head.rtm_table);
        answer.gateway = attributes.Address(RTA_GATEWAY);
      });
  return answer;
}

std::optional<int> Socket::LookupOutputInterface(const Ip& destination) {
  const RouteAnswer answer = LookUpRoute({.destination = destination});
  return answer.error == 0 ? std::optional(answer.link) : std::nullopt;
}

std::optional<BlockingRoute> Socket::FindBlockingRoute(const RouteQuery& query) {
  const std::vector<ListedRoute> routes = ListRoutesTo(socket_, query.destination);
  for (const ListedRule& rule :
       RulesOf(ListRules(socket_, query.destination.family()), query, InputOf(query))) {
    const auto route = std::ranges::find(routes, rule.table, &ListedRoute::table);
    if (!rule.action.empty()) {
      break;
    }
    if (rule.has_more || route == routes.end() || route->type == RTN_THROW) {
      continue;
    }
    // The first table that has a route decides.
    const std::string type = BlockerOf(&Blocker::route_type, route->type);
    const bool is_default = route->destination.prefix_length == 0;
    return type.empty() ? std::nullopt
                        : std::optional(BlockingRoute{
                              .type = type,
                              .destination = is_default ? "default" : route->destination.Text(),
                              .table = route->table});
  }
  return std::nullopt;
}

std::optional<std::string> Socket::FindLocalRoute(const Ip& address) {
  for (const ListedRoute& route : ListRoutesTo(socket_, address)) {
    if (route.type == RTN_LOCAL && route.table == RT_TABLE_LOCAL) {
      return route.destination.Text();
    }
  }
  return std::nullopt;
}

bool Socket::HasRulesAboutMarks(Family family) {
  return std::ranges::any_of(ListRules(socket_, family),
                             [](const ListedRule& rule) { return rule.mark_mask != 0; });
}

bool Socket::HasRulesAboutPorts(Family family) {
  return std::ranges::any_of(ListRules(socket_, family),
                             [](const ListedRule& rule) { return rule.IsAboutFlow(); });
}

bool Socket::IsMainLookedUp(Family family) {
  return std::ranges::any_of(ListRules(socket_, family), [](const ListedRule& rule) {
    return rule.table == RT_TABLE_MAIN && rule.words.empty() && !rule.has_more;
  });
}

std::string Socket::InputOf(const RouteQuery& query) {
  const std::optional<Link> input =
      query.input_link == 0 ? std::nullopt : FindLink(query.input_link);
  return input ? input->name : "lo";
}

std::vector<BlockingRule> Socket::BlockingRules(const RouteQuery& query) {
  const std::vector<ListedRule> all = ListRules(socket_, query.destination.family());
  std::vector<BlockingRule> rules;
  for (const ListedRule& rule : RulesOf(all, query, InputOf(query))) {
    if (rule.action.empty()) {
      continue;
    }
    const auto found = std::ranges::find_if(
        all, [&](const ListedRule& each) { return rule.IsFoundFirstAt(each); });
    rules.push_back({.action = rule.action,
                     .priority = rule.priority,
                     .selector = Joined(rule.words, " "),
                     .is_alone = !rule.is_inverted && !rule.has_more && !found->has_more &&
                                 found->words == rule.words});
  }
  return rules;
}

Socket::NeighbourEntry Socket::ReadNeighbour(const Link& link, const Ip& address) {
  netlink::Message request(
      RTM_GETNEIGH, 0, ndmsg{.ndm_family = FamilyOf(address), .ndm_ifindex = link.index});
  request.PutBytes(NDA_DST, address.bytes());
  NeighbourEntry entry;
  netlink::ForEachMessage<ndmsg>(
      socket_.TransactOrThrow(
          request, Cat("cannot look up the neighbour ", address), {ENOENT, EINVAL, ENODEV}),
      [&](const ndmsg& head, const netlink::Attributes& attributes) {
        entry = {.state = head.ndm_state,
                 .mac = ReadMac(attributes.Bytes(NDA_LLADDR)),
                 .age = AgeIn(attributes.Bytes(NDA_CACHEINFO))};
      });
  return entry;
}

std::optional<Neighbour> Socket::FindNeighbour(const Link& link, const Ip& address) {
  const NeighbourEntry entry = ReadNeighbour(link, address);
  return (entry.state & kUsed) == 0
             ? std::nullopt
             : std::optional<Neighbour>({.link = link.index,
                                         .address = address,
                                         .mac = entry.mac,
                                         .permanent = (entry.state & NUD_PERMANENT) != 0});
}

std::vector<Neighbour> Socket::Neighbours() {
  netlink::Message request(RTM_GETNEIGH, NLM_F_DUMP, ndmsg{.ndm_family = AF_UNSPEC});
  std::vector<Neighbour> neighbours;
  netlink::ForEachMessage<ndmsg>(
      socket_.TransactOrThrow(request, "cannot list the neighbours"),
      [&](const ndmsg& head, const netlink::Attributes& attributes) {
        const std::optional<Ip> address = attributes.Address(NDA_DST);
        if (address && (head.ndm_state & kUsed) != 0) {
          neighbours.push_back({.link = head.ndm_ifindex,
                                .address = *address,
                                .mac = ReadMac(attributes.Bytes(NDA_LLADDR)),
                                .permanent = (head.ndm_state & NUD_PERMANENT) != 0});
        }
      });
  return neighbours;
}

std::optional<std::chrono::milliseconds> Socket::UnansweredFor(const Link& link,
                                                               const Ip& address) {
  const NeighbourEntry entry = ReadNeighbour(link, address);
  return (entry.state & (NUD_INCOMPLETE | NUD_FAILED)) == 0 ? std::nullopt
                                                            : std::optional(entry.age);
}

void Socket::ForgetUnanswered(const Link& link, const Ip& address) {
  if (ReadNeighbour(link, address).state != NUD_INCOMPLETE) {
    return;
  }
  netlink::Message request(
      RTM_DELNEIGH, NLM_F_ACK, ndmsg{.ndm_family = FamilyOf(address), .ndm_ifindex = link.index});
  request.PutBytes(NDA_DST, address.bytes());
  socket_.TransactOrThrow(
      request, Format("cannot forget the neighbour {} on '{}'", address, link.name), {ENOENT});
}

}  // namespace nomad_bridge::rtnl
