#include "plugin/attachment/cut_connections.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/conntrack/conntrack.h"
#include "plugin/link/liveness.h"
#include "plugin/policy/judge.h"
#include "plugin/rules/in_force.h"
#include "plugin/rules/policy_admission.h"

namespace nomad_bridge::attachment {
namespace {

using Ids = std::set<std::vector<std::uint8_t>>;

// Judges connections by the policies in force.
class ConnectionJudge {
 public:
  explicit ConnectionJudge(state::Host& host)
      : program_(host.policy.Program()), in_force_(host), of_node_(host.net.AllAddresses()) {
    link::LiveAttachments live(host, {});
    for (const state::Record& record : live.records()) {
      for (const Cidr& cidr : record.ipam.addresses) {
        workloads_.emplace(cidr.address, record.Workload());
      }
    }
  }

  // Many connections differ only in their source port, and are judged once.
  [[nodiscard]] bool Refuses(const conntrack::Connection& connection) {
    const auto [answer, is_new] = known_.try_emplace(connection);
    if (is_new) {
      const policy::Answer found =
          policy::Judge(program_,
                        {.from = EndOf(connection.from),
                         .to = EndOf(connection.to),
                         .protocol = static_cast<Protocol>(connection.protocol),
                         .port = connection.port});
      answer->second = !found.is_allowed && found.unknown_chain.empty();
    }
    return answer->second;
  }

 private:
  [[nodiscard]] policy::End EndOf(const Ip& address) const {
    const auto found = workloads_.find(address);
    return {.workload = found != workloads_.end() ? std::optional(found->second) : std::nullopt,
            .address = address,
            .is_node = of_node_.contains(address),
            .in_force = in_force_.Of(address)};
  }

  const policy::Program& program_;
  rules::InForce in_force_;
  std::set<Ip> of_node_;
  std::map<Ip, cni::Workload> workloads_;
  std::map<conntrack::Connection, bool> known_;
};

Ids ReadCut(state::Host& host) {
  Ids ids;
  for (nft::Socket::Noted& noted : host.nft.NotedIn(firewall::TableId(), rules::kCut)) {
    ids.insert(std::move(noted.key));
  }
  return ids;
}

// Which elements the set gets, and which go.
struct CutPlan {
  Ids added;
  Ids removed;
};

CutPlan PlanCut(state::Host& host, const Ids& present, More more) {
  CutPlan plan = {.added = {}, .removed = present};  // conntrack may have forgotten some
  ConnectionJudge judge(host);
  for (const conntrack::Conntrack::Entry& entry : conntrack::Conntrack::In(host.netns).All()) {
    const bool is_present = present.contains(entry.id);
    if ((is_present || more == More::kAll) && judge.Refuses(entry.connection)) {
      plan.removed.erase(entry.id);
      if (!is_present) {
        plan.added.insert(entry.id);
      }
    }
  }
  return plan;
}

// Returns false if rules have removed an element meanwhile.
bool CommitCut(state::Host& host, const CutPlan& plan) {
  constexpr std::size_t kMaxMessages = 4096;  // fit into the socket's buffer
  nft::Batch batch;
  const auto commit = [&] {
    const bool is_done =
        batch.empty() || host.nft.Commit(std::exchange(batch, {}), std::nullopt).done();
    return is_done;
  };
  for (const auto& [ids, is_added] :
       {std::pair(&plan.removed, false), std::pair(&plan.added, true)}) {
    for (const std::vector<std::uint8_t>& id : *ids) {
      const nft::Element element = {.set = rules::kCut, .key = id};
      is_added ? batch.AddElement(firewall::TableId(), element)
               : batch.DeleteElement(firewall::TableId(), element);
      if (batch.messages().size() == kMaxMessages && !commit()) {
        return false;
      }
    }
  }
  return commit();
}

}  // namespace

std::size_t CutRefused(state::Host& host, More more) {
  constexpr int kMaxTries = 5;
  std::size_t count = 0;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const Ids present = ReadCut(host);
    if (more == More::kNone && present.empty()) {
      return 0;
    }
    const CutPlan plan = PlanCut(host, present, more);
    count += plan.added.size();
    if (present.size() - plan.removed.size() + plan.added.size() > rules::kMaxCut) {
      throw Error(
          Code::kTryAgain,
          Format("more than {} connections are refused: none of them was ended", rules::kMaxCut),
          "the policies are in force for new connections");
    }
    if (CommitCut(host, plan)) {
      return count;
    }
    count = 0;
  }
  throw Error(Code::kTryAgain, "cannot end connections: the set of ended ones keeps changing");
}

}  // namespace nomad_bridge::attachment
