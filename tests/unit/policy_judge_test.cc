// The compiled verdict against one that is read off the policies themselves.
#include <random>

#include "plugin/policy/glob.h"
#include "plugin/policy/judge.h"
#include "plugin/policy/policy.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {
namespace {

using cni::Workload;
using policy::Answer;
using policy::Connection;
using policy::Direction;
using policy::End;
using policy::Entry;
using policy::Peer;
using policy::Policies;
using policy::Policy;
using policy::Ports;
using policy::Selector;

struct Expected {
  bool is_allowed = true;
  std::string by;
  std::string would_be_refused_by;
};

// What docs/policy.md says, sentence by sentence.
class Naive {
 public:
  Naive(const Policies& policies, const Connection& connection)
      : policies_(policies), connection_(connection) {}

  Expected Judge() {
    const auto& [from, to, protocol, port] = connection_;
    if (from.workload) {
      JudgeOne(Direction::kFrom, *from.workload, to);
    }
    if (answer_.is_allowed && to.workload && !from.is_node) {
      JudgeOne(Direction::kTo, *to.workload, from);
    }
    return answer_;
  }

 private:
  using List = std::vector<const Policy*>;

  [[nodiscard]] List Considered(Direction direction,
                                const Workload& judged,
                                bool with_audited) const {
    List all;
    for (const Policy& policy : policies_.policies) {
      if (policy.direction == direction && Selects(policy.selector, judged) &&
          (with_audited || !policy.is_audited)) {
        all.push_back(&policy);
      }
    }
    List only;
    std::ranges::copy_if(all, std::back_inserter(only), &Policy::only);
    return only.empty() ? all : only;
  }

  [[nodiscard]] bool IsPeer(const Peer& peer, const Workload& judged, const End& end) const {
    switch (peer.kind) {
      case Peer::Kind::kSelector:
        return end.workload && Selects(peer.selector, *end.workload);
      case Peer::Kind::kSameNamespace:
        return end.workload && end.workload->nomad_namespace == judged.nomad_namespace;
      case Peer::Kind::kAddresses:
        return end.address &&
               std::ranges::any_of(policies_.addresses.at(peer.addresses),
                                   [&](const Cidr& cidr) { return cidr.Contains(*end.address); });
      case Peer::Kind::kOutside:
        return !end.workload && !end.is_node;
      case Peer::Kind::kNode:
        return end.is_node;
      case Peer::Kind::kAny:
        return true;
    }
    return false;
  }

  [[nodiscard]] bool IsOf(const Ports& ports) const {
    return ports.protocol == connection_.protocol &&
           (ports.protocol == Protocol::kIcmp ||
            (connection_.port >= ports.first && connection_.port <= ports.last));
  }

  // Which of the policy's entries is met first; its rule's name.
  [[nodiscard]] std::string Met(const std::vector<Entry>& entries,
                                const std::string& rule,
                                const Workload& judged,
                                const End& end) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto is_peer = [&](const Peer& peer) { return IsPeer(peer, judged, end); };
      const auto is_of = [&](const Ports& ports) { return IsOf(ports); };
      if (std::ranges::any_of(entries[i].peers, is_peer) &&
          (entries[i].ports.empty() || std::ranges::any_of(entries[i].ports, is_of))) {
        return Cat(rule, i);
      }
    }
    return {};
  }

  // Of a policy that is audited, or of one that is not.
  [[nodiscard]] std::string Denied(const List& list,
                                   bool is_audited,
                                   const Workload& judged,
                                   const End& end) const {
    for (const Policy* const policy : list) {
      std::string rule = Met(policy->deny, Cat(policy->name, "#deny"), judged, end);
      if (policy->is_audited == is_audited && !rule.empty()) {
        return rule;
      }
    }
    return {};
  }

  [[nodiscard]] std::string Allowed(const List& list,
                                    const Workload& judged,
                                    const End& end) const {
    for (const Policy* const policy : list) {
      std::string rule = Met(policy->allow, Cat(policy->name, '#'), judged, end);
      if (!rule.empty()) {
        return rule;
      }
    }
    return {};
  }

  // The names of those that leave it closed.
  [[nodiscard]] static std::string Closed(const List& list, bool with_enforced) {
    std::string names;
    for (const Policy* const policy : list) {
      if (policy->is_closed && (with_enforced || policy->is_audited)) {
        names += Cat(names.empty() ? "" : ", ", policy->name);
      }
    }
    return names;
  }

  void JudgeOne(Direction direction, const Workload& judged, const End& end) {
    const List enforced = Considered(direction, judged, false);
    const List all = Considered(direction, judged, true);
    const std::string closers = Closed(enforced, true);
    const std::string audited = Closed(all, false);
    const std::string allowed = Allowed(enforced, judged, end);
    const std::string tried = Allowed(all, judged, end);
    std::string refused = Denied(enforced, false, judged, end);
    if (refused.empty() && allowed.empty()) {
      refused = closers;
    }
    if (!refused.empty()) {
      answer_ = {.is_allowed = false, .by = refused};
      return;
    }
    if (!enforced.empty() || !all.empty()) {
      const std::string by = !closers.empty() ? allowed : !audited.empty() ? tried : "";
      answer_.by = by.empty() ? answer_.by : by;
    }
    std::string would = Denied(all, true, judged, end);
    if (would.empty() && tried.empty()) {
      would = audited.substr(0, audited.find(','));
    }
    if (answer_.would_be_refused_by.empty()) {
      answer_.would_be_refused_by = would;
    }
  }

  const Policies& policies_;
  const Connection& connection_;
  Expected answer_;
};

// Values of few kinds, so that they meet.
class Dice {
 public:
  bool OneOf(unsigned sides) { return random_() % sides == 0; }
  template <typename T>
  T Any(std::initializer_list<T> values) {
    return *(values.begin() + random_() % values.size());
  }

  std::string Word(std::initializer_list<const char*> words) { return Any(words); }

  Selector AnySelector() {
    return {.nomad_namespace = Word({"*", "prod", "dev", "dev*", "d?v-1", "Infra"}),
            .job = Word({"", "", "api", "lb", "l*", "etl"}),
            .group = Word({"", "", "", "web", "d*"})};
  }
  Workload AnyWorkload() {
    return {.nomad_namespace = Word({"prod", "prod", "dev", "dev-1", "Infra", "infra", ""}),
            .job = Word({"api", "lb", "etl/periodic-17", "lb/dispatch-1-f", ""}),
            .group = Word({"web", "db", ""})};
  }
  Protocol AnyProtocol() {
    return Any({Protocol::kTcp, Protocol::kTcp, Protocol::kUdp, Protocol::kSctp, Protocol::kIcmp});
  }
  Peer AnyPeer() {
    using Kind = Peer::Kind;
    Peer peer = {.kind = Any({Kind::kSelector,
                              Kind::kSelector,
                              Kind::kSameNamespace,
                              Kind::kAddresses,
                              Kind::kOutside,
                              Kind::kNode,
                              Kind::kAny})};
    if (peer.kind == Kind::kSelector) {
      peer.selector = AnySelector();
    } else if (peer.kind == Kind::kAddresses) {
      peer.addresses = Word({"office", "both", "fd00:1::/32"});
    }
    return peer;
  }
  Entry AnyEntry() {
    Entry entry;
    do {
      entry.peers.push_back(AnyPeer());
    } while (OneOf(3));
    while (OneOf(2)) {
      const auto first = Any<std::uint16_t>({1, 80, 443});
      entry.ports.push_back({.protocol = AnyProtocol(),
                             .first = first,
                             .last = OneOf(2) ? first : std::uint16_t{443}});
    }
    return entry;
  }
  Policy AnyPolicy(std::size_t number) {
    Policy policy = {.name = Cat('p', number),
                     .direction = OneOf(2) ? Direction::kTo : Direction::kFrom,
                     .selector = AnySelector(),
                     .is_audited = OneOf(3)};
    const bool is_to = policy.direction == Direction::kTo;
    policy.only = is_to && OneOf(4);
    policy.is_closed = is_to || OneOf(2);
    while (policy.is_closed && !OneOf(3)) {
      policy.allow.push_back(AnyEntry());
    }
    while (!is_to && (policy.deny.empty() ? !policy.is_closed : OneOf(2))) {
      policy.deny.push_back(AnyEntry());
    }
    return policy;
  }
  Policies AnyPolicies() {
    const auto prefix = [](const char* text) { return *Cidr::Parse(text); };
    Policies all;
    all.addresses = {{"office", {prefix("10.0.0.0/8"), prefix("fd00::/16")}},
                     {"both", {prefix("10.1.0.0/16"), prefix("192.0.2.0/24")}},
                     {"fd00:1::/32", {prefix("fd00:1::/32")}}};
    const std::size_t count = 1 + random_() % 5;
    while (all.policies.size() < count) {
      all.policies.push_back(AnyPolicy(all.policies.size()));
    }
    return all;
  }
  End AnyEnd() {
    End end;
    if (!OneOf(4)) {
      end.address =
          Ip::Parse(Word({"10.1.0.2", "10.2.0.2", "192.0.2.1", "fd00::1", "fd00:1::1", "::1"}));
    }
    if (!OneOf(4)) {
      end.workload = AnyWorkload();
    } else {
      end.is_node = OneOf(2);
    }
    return end;
  }
  Connection AnyConnection() {
    return {.from = AnyEnd(),
            .to = AnyEnd(),
            .protocol = AnyProtocol(),
            .port = Any<std::uint16_t>({1, 79, 80, 443, 444})};
  }

 private:
  std::mt19937 random_{24};
};

const char* InWords(const Answer& answer) {
  return !answer.is_allowed                   ? "refused"
         : !answer.WouldBeRefusedBy().empty() ? "would be refused"
         : !answer.By().empty()               ? "allowed"
                                              : "not judged";
}

TEST(Judge, AgreesWithThePolicies) {
  constexpr int kPrograms = 1'000;
  constexpr int kConnections = 100;
  Dice dice;
  std::map<std::string, int> answers;
  for (int i = 0; i < kPrograms; ++i) {
    const Policies policies = dice.AnyPolicies();
    const policy::Program program(policies);
    for (int j = 0; j < kConnections; ++j) {
      const Connection connection = dice.AnyConnection();
      const Expected expected = Naive(policies, connection).Judge();
      const Answer answer = Judge(program, connection);
      ASSERT_EQ(std::tuple(answer.is_allowed, answer.By(), answer.WouldBeRefusedBy()),
                std::tuple(expected.is_allowed, expected.by, expected.would_be_refused_by))
          << "program " << i << ", connection " << j << '\n'
          << program.Text();
      ++answers[InWords(answer)];
    }
  }
  for (const auto& [what, count] : answers) {
    EXPECT_GT(count, kPrograms * kConnections / 50) << what;
  }
  EXPECT_THAT(answers, SizeIs(4));
}

TEST(Selector, MatchesGlobsAndParentJobs) {
  const Workload etl = {
      .nomad_namespace = "prod", .job = "etl/periodic-1700000000", .group = "größe"};
  for (const Selector& selector : {Selector{"prod", "", ""},
                                   Selector{"*", "etl", ""},
                                   Selector{"p*d", "e?l", ""},
                                   Selector{"*o*", "etl/*-17*", "gr??e"},
                                   Selector{"prod", "etl/periodic-1700000000", "*"},
                                   Selector{"prod*", "*", "größe*"}}) {
    EXPECT_TRUE(Selects(selector, etl)) << Text(selector);
  }
  for (const Selector& selector : {Selector{"Prod", "", ""},
                                   Selector{"pro", "", ""},
                                   Selector{"?prod", "", ""},
                                   Selector{"prod", "et", ""},
                                   Selector{"prod", "etl/periodic", ""},
                                   Selector{"prod", "*x", ""},
                                   Selector{"prod", "", "gr???e"}}) {
    EXPECT_FALSE(Selects(selector, etl)) << Text(selector);
  }
  EXPECT_FALSE(policy::Selects({"*", "", ""}, {.nomad_namespace = "", .job = "etl", .group = ""}));
}

TEST(Glob, ABackslashMakesTheNextCharacterLiteral) {
  for (const auto& [glob, text] : {std::pair(R"(\*)", "*"),
                                   std::pair(R"(a\?b)", "a?b"),
                                   std::pair(R"(*\**)", "x*y"),
                                   std::pair(R"(?\?)", "ü?")}) {
    EXPECT_TRUE(policy::MatchesGlob(glob, text)) << glob << ' ' << text;
    EXPECT_TRUE(policy::IsGlob(glob)) << glob;
  }
  for (const auto& [glob, text] : {std::pair(R"(\*)", "a"),
                                   std::pair(R"(\*)", ""),
                                   std::pair(R"(\*)", R"(\*)"),
                                   std::pair(R"(a\?b)", "axb"),
                                   std::pair(R"(*\*)", "xy")}) {
    EXPECT_FALSE(policy::MatchesGlob(glob, text)) << glob << ' ' << text;
  }
  for (const char* const text : {R"(\)", R"(a\)", R"(\a)", R"(\\*)", "a\nb"}) {
    EXPECT_FALSE(policy::IsGlob(text)) << text;
  }
}

TEST(Glob, MadeLiterallyMatchesOnlyItsText) {
  const std::vector<std::string> texts = {"*", "a?b", "a'", "'*", "**", "axb", "plain", "größe?"};
  for (const std::string& each : texts) {
    for (const std::string& other : texts) {
      EXPECT_EQ(policy::MatchesGlob(policy::Literally(each), other), each == other)
          << each << ' ' << other;
    }
    EXPECT_TRUE(policy::IsGlob(policy::Literally(each)));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
