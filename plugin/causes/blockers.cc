#include "plugin/causes/blockers.h"

#include <algorithm>

#include "base/text.h"

namespace nomad_bridge::causes {
namespace {

bool HasMainRoute(rtnl::Socket& net, const Ip& destination) {
  return std::ranges::any_of(net.Routes(), [&](const Route& route) {
    return route.table == kMainTable && route.destination.Contains(destination);
  });
}

}  // namespace

std::string TableWords(std::uint32_t table) {
  return table == kMainTable || table == 0 ? "" : Cat(" table ", table);
}

Causes FindKnownBlockers(rtnl::Socket& net,
                         const rtnl::RouteQuery& query,
                         const std::string& what,
                         const std::string& prefix) {
  Causes causes;
  const std::string tool = Cat(prefix, IpTool(query.destination.family()));
  for (const rtnl::BlockingRule& rule : net.BlockingRules(query)) {
    const std::string selector = Cat(rule.selector, rule.selector.empty() ? "" : " ");
    causes.push_back(
        {.text = Format("{}: ip rule {} says {}", what, rule.priority, rule.action),
         .fix =
             rule.is_alone
                 ? Fix(Format(
                       "{} rule del {}priority {} {}", tool, selector, rule.priority, rule.action))
                 : Fix::Advice(Format("delete it; those that are there: {} rule show "
                                      "priority {}",
                                      tool,
                                      rule.priority))});
  }
  const std::optional<rtnl::BlockingRoute> route = net.FindBlockingRoute(query);
  if (route && route->table != kLocalTable) {  // which is the kernel's own
    causes.push_back(
        {.text = Format("{}: the route to {} is {}", what, route->destination, route->type),
         .fix = Format("{} route del {} {}{}",
                       tool,
                       route->type,
                       route->destination,
                       TableWords(route->table))});
  }
  const Family family = query.destination.family();
  const bool may_be_by_mark = !query.mark && net.HasRulesAboutMarks(family);
  if (causes.empty() && !may_be_by_mark && HasMainRoute(net, query.destination) &&
      !net.IsMainLookedUp(family)) {
    causes.push_back(
        {.text = Cat(what, ": the ip rule by which table main is looked up is missing"),
         .fix = Cat(tool, " rule add priority 32766 lookup main")});
  }
  return causes;
}

Causes FindBlockers(rtnl::Socket& net,
                    const rtnl::RouteQuery& query,
                    const std::string& what,
                    const std::string& prefix) {
  Causes causes = FindKnownBlockers(net, query, what, prefix);
  if (causes.empty()) {
    causes.push_back(
        {.text = Cat(what, ": there is no route"),
         .fix = Fix::Advice(Format("add one; those that are there: {} route show table all",
                                   Cat(prefix, IpTool(query.destination.family()))))});
  }
  return causes;
}

Causes FindBlackhole(rtnl::Socket& net, const rtnl::Link& link, const std::string& prefix) {
  if (!net.Discards(link)) {
    return {};
  }
  return {{.text = Format("'{}' sends nothing: its queue {}",
                          link.name,
                          link.queue == "netem" ? "of kind netem loses all" : "is a blackhole"),
           .fix = Format("{}tc qdisc del dev {} root", prefix, ShellWord(link.name))}};
}

std::vector<std::string> TrafficControlOf(rtnl::Socket& net,
                                          const rtnl::Link& link,
                                          const std::string& prefix) {
  std::vector<std::string> notes;
  for (const std::string& direction : net.FilteredDirections(link)) {
    notes.push_back(
        Format("filters of tc, which may drop what they see: {}tc filter show dev {} {}",
               prefix,
               ShellWord(link.name),
               direction));
  }
  if ((link.queue == "netem" && !net.Discards(link)) || link.queue == "tbf") {
    notes.push_back(Format("a queue of tc, which may lose what it sends: {}tc -s qdisc show dev {}",
                           prefix,
                           ShellWord(link.name)));
  }
  return notes;
}

bool HasDefaultRoute(const std::vector<Route>& routes, Family family) {
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.destination.prefix_length == 0 && route.destination.address.family() == family;
  });
}

}  // namespace nomad_bridge::causes
