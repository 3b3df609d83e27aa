// Our table in the kernel: created, repaired, shared and left alone. Read back with nft.
#include <unistd.h>

#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kForwardChain = "chain forward in table inet nomad-bridge was changed";

class Ruleset : public RulesetWorld {
 protected:
  std::string List(const std::string& what = "table inet nomad-bridge") {
    return WithoutHash(host().Must(Words(Cat("nft list ", what))));
  }

  // The same without an order: elements that were added again come last.
  std::multiset<std::string> Lines() {
    std::istringstream list(List());
    std::multiset<std::string> lines;
    for (std::string line; std::getline(list, line);) {
      lines.insert(line);
    }
    return lines;
  }

  // The elements of container 2, claimed by container 3.
  static DesiredState ClaimOfAnother() {
    DesiredState claim = DesiredOf(2);
    for (nft::Element& element : claim.elements) {
      if (!element.comment.empty()) {
        element.comment = Comment(3);
      }
    }
    return claim;
  }
};

TEST_F(Ruleset, StaysAsItIsIfNothingIsToBeDone) {
  Put(DesiredOf(2));
  const std::string before = host().Must(Words("nft list ruleset"));
  const std::uint32_t generation = socket_.Generation();
  EXPECT_THAT(Put(DesiredOf(2), {DesiredOf(2)}).repaired, IsEmpty());
  EXPECT_EQ(socket_.Generation(), generation) << "something was committed";
  EXPECT_EQ(host().Must(Words("nft list ruleset")), before);
}

TEST_F(Ruleset, SaysWhatItIs) {
  EXPECT_EQ(firewall::FindAbout(socket_), std::nullopt);
  Put(DesiredOf(2));
  firewall::About about = GoalOf({}).about;
  about.rules = firewall::HashOfRules(socket_);
  EXPECT_EQ(firewall::FindAbout(socket_), about);
}

TEST_F(Ruleset, HasAHashThatChangesWithItsRulesAlone) {
  Put(DesiredOf(2));
  const std::string before = firewall::HashOfRules(socket_);
  Put(DesiredOf(3), {DesiredOf(2)});
  const std::string list = host().Must(Words("nft list ruleset"));
  host().Nft("flush ruleset\n" + list);
  EXPECT_EQ(firewall::HashOfRules(socket_), before) << "loaded again";
  for (const char* const change : {"insert rule inet nomad-bridge forward drop",
                                   "chain inet nomad-bridge forward { policy drop; }",
                                   "flush chain inet nomad-bridge forward"}) {
    host().Nft("flush ruleset\n" + list);
    host().Nft(change);
    EXPECT_NE(firewall::HashOfRules(socket_), before) << change;
  }
}

// Of an element that somebody has deleted or forged, nothing is left.
TEST_F(Ruleset, GetsItsDescriptionBack) {
  Put(DesiredOf(2));
  Restore({DesiredOf(2)});
  const std::string before = host().Must(Words("nft list ruleset"));
  for (const char* const change :
       {"flush set inet nomad-bridge about",
        "add element inet nomad-bridge about { 1 comment \"tables=other\" }",
        "delete element inet nomad-bridge about { 0x1000 }\n"
        "add element inet nomad-bridge about { 0x1000 comment \"rules=forged\" }"}) {
    host().Nft(change);
    EXPECT_THAT(Restore({DesiredOf(2)}), IsEmpty()) << change;
    EXPECT_EQ(host().Must(Words("nft list ruleset")), before) << change;
  }
}

// As an operator's file has it that was saved before the boot.
TEST_F(Ruleset, IsReplacedIfItIsOfAnEarlierBoot) {
  Put(DesiredOf(2));
  Put(DesiredOf(3));
  firewall::Goal goal = GoalOf({DesiredOf(2)});
  goal.about.boot = "later";
  EXPECT_THAT(Compare(goal), ElementsAre("table inet nomad-bridge is of an earlier boot"));
  EXPECT_THAT(List(), Not(HasSubstr("veth3")));
  EXPECT_THAT(Compare(goal), IsEmpty());
}

TEST_F(Ruleset, HasItsChainsFilledAgainInOneBatch) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft("flush chain inet nomad-bridge forward");
  const std::uint32_t generation = socket_.Generation();
  EXPECT_THAT(Restore({DesiredOf(2)}), ElementsAre(kForwardChain));
  EXPECT_EQ(socket_.Generation(), nft::NextGeneration(nft::NextGeneration(generation)))
      << "one for the rules, one for their hash";
  EXPECT_EQ(List(), before);
}

struct Damage : Named {
  std::string commands;
  std::string mismatch;
};

class DamagedRuleset : public Ruleset, public ::testing::WithParamInterface<Damage> {};

TEST_P(DamagedRuleset, IsRepaired) {
  Put(DesiredOf(2));
  const std::multiset<std::string> before = Lines();
  host().Nft(GetParam().commands);
  ASSERT_NE(Lines(), before) << "no damage was done";
  EXPECT_THAT(Diff(DesiredOf(2)), Contains(GetParam().mismatch));
  ASSERT_NE(Lines(), before) << "Diff() changed something";
  const auto outcome = Put(DesiredOf(2), {DesiredOf(2)});
  EXPECT_THAT(outcome.repaired, ElementsAre(GetParam().mismatch));
  EXPECT_EQ(Lines(), before);
  EXPECT_THAT(Diff(DesiredOf(2)), IsEmpty());
}

constexpr const char* kWholeTable = "table inet nomad-bridge is missing";

const Damage kDamages[] = {
    {"AnElementOfIpv6Gone",
     "delete element inet nomad-bridge alloc6 { fd00:26::2 }",
     "fd00:26::2 in alloc6 of veth2 is missing"},
    {"AnotherComment",
     "delete element inet nomad-bridge snat4 { 172.26.64.2 }\n"
     "add element inet nomad-bridge snat4 { 172.26.64.2 comment \"veth2 other\" }",
     "172.26.64.2 in snat4 of veth2 was changed"},
    {"ARuleAdded", "insert rule inet nomad-bridge forward drop", kForwardChain},
    {"AChainGone",
     "flush chain inet nomad-bridge localhost_guard\n"
     "delete chain inet nomad-bridge localhost_guard",
     "chain localhost_guard in table inet nomad-bridge was changed"},
    {"APolicy", "chain inet nomad-bridge forward { policy drop; }", kForwardChain},
    {"AnotherTable",
     "delete table inet nomad-bridge\n"
     "table inet nomad-bridge { set alloc4 { type ipv6_addr; }; }",
     kWholeTable},
    {"AnotherKindOfSet",
     "delete table inet nomad-bridge\n"
     "table inet nomad-bridge { set alloc4 { type ipv4_addr; flags interval; }; }",
     kWholeTable},
    {"AnotherPriority",
     "delete chain inet nomad-bridge forward\n"
     "table inet nomad-bridge { chain forward { type filter hook forward priority 5; }; }",
     kForwardChain},
};

INSTANTIATE_TEST_SUITE_P(After, DamagedRuleset, ::testing::ValuesIn(kDamages), kNameOf);

TEST_F(Ruleset, GetsAMissingSetBack) {
  host().Nft("table inet nomad-bridge { set bridges { type ifname; }; }");
  const auto outcome = Put(DesiredOf(2));
  EXPECT_THAT(outcome.repaired, Contains("set alloc4 in table inet nomad-bridge is missing"));
  EXPECT_THAT(List(), HasSubstr("ip saddr @alloc4"));
}

// As another release had them.
TEST_F(Ruleset, LosesChainsAndSetsThatTheTableDoesNotHave) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft(
      "add set inet nomad-bridge old { type ipv4_addr; elements = { 192.0.2.1 }; }\n"
      "table inet nomad-bridge {\n"
      "  chain old_rules { ip saddr @old drop; ip saddr { 192.0.2.8, 192.0.2.9 } drop; }\n"
      "  map old_verdicts { type ipv4_addr : verdict; elements = { 192.0.2.7 : jump old_rules }; "
      "}\n"
      "  chain old_hook { type filter hook forward priority 7; ip saddr vmap @old_verdicts; }\n"
      "}");
  EXPECT_THAT(Restore({DesiredOf(2)}),
              ElementsAre("set old in table inet nomad-bridge is left over",
                          "set old_verdicts in table inet nomad-bridge is left over",
                          "chain old_rules in table inet nomad-bridge is left over",
                          "chain old_hook in table inet nomad-bridge is left over"));
  EXPECT_EQ(List(), before);
}

// gc removes it, or an ADD that takes over its address.
TEST_F(Ruleset, KeepsAnElementThatNothingExplains) {
  Put(DesiredOf(2));
  host().Nft("add element inet nomad-bridge alloc4 { 192.0.2.9 comment \"veth9 x\" }");
  EXPECT_THAT(Restore({DesiredOf(2)}), IsEmpty());
  EXPECT_THAT(List(), HasSubstr("192.0.2.9"));
}

using TakenElement = Ruleset;

TEST_F(TakenElement, IsTakenOverFromAStaleOwnerInOneBatch) {
  Put(DesiredOf(2));
  firewall::Change change = Adding(ClaimOfAnother());
  change.stale_owners = {"veth2"};
  const std::uint32_t generation = socket_.Generation();
  EXPECT_FALSE(Change(change).conflict);
  EXPECT_EQ(socket_.Generation(), nft::NextGeneration(generation)) << "more than one commit";
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth3"));
  EXPECT_THAT(List(), Not(HasSubstr("veth2")));
}

TEST_F(TakenElement, IsReplacedByItsOwner) {
  Put(DesiredOf(2));
  DesiredState relabelled = DesiredOf(2);
  for (nft::Element& element : relabelled.elements) {
    element.comment = element.comment.empty() ? "" : "veth2 job=new";
  }
  EXPECT_FALSE(Change(Adding(relabelled)).conflict);
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth2 job=new\""));
  EXPECT_THAT(List(), Not(HasSubstr("billing")));
}

TEST_F(TakenElement, IsRemovedOnlyByItsOwner) {
  Put(DesiredOf(2));
  firewall::Change change = Adding(DesiredOf(4));
  change.remove = ClaimOfAnother().elements;  // veth3 never had them
  std::erase_if(change.remove, &firewall::IsShared);
  Change(change);
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth2"));
  change = Adding(DesiredOf(5));
  change.remove = DesiredOf(2).elements;
  std::erase_if(change.remove, &firewall::IsShared);
  Change(change);
  EXPECT_THAT(List(), Not(HasSubstr("veth2")));
  EXPECT_THAT(List(), HasSubstr("\"nomad\"")) << "the bridge is shared";
}

// Two live attachments want it: the one that has it keeps it.
TEST_F(Ruleset, LeavesAnElementToTheClaimantThatHasIt) {
  Put(DesiredOf(2));
  const std::string before = List();
  EXPECT_THAT(Restore({ClaimOfAnother(), DesiredOf(2)}), IsEmpty());
  EXPECT_EQ(List(), before);
}

TEST_F(Ruleset, GetsAnElementBackFromAnOwnerWithoutAClaim) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft(
      "delete element inet nomad-bridge alloc4 { 172.26.64.2 }\n"
      "add element inet nomad-bridge alloc4 { 172.26.64.2 comment \"veth9 x\" }");
  EXPECT_THAT(Put(DesiredOf(3), {DesiredOf(2)}).repaired,
              ElementsAre("172.26.64.2 in alloc4 of veth2 was changed"));
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth2"));
}

TEST_F(Ruleset, MayBeAbsentWhenElementsAreRemoved) {
  firewall::EnsureElementsGone(socket_, DesiredOf(3).elements);
  EXPECT_THAT(firewall::AllElements(socket_), IsEmpty());
  EXPECT_EQ(firewall::FindAddress(socket_, Ip::Parse(Ip4(2)).value()), std::nullopt);
  EXPECT_EQ(host().Must({"nft", "list", "ruleset"}), "");
}

TEST_F(Ruleset, ListsItsElementsButNotItsDescription) {
  Put(DesiredOf(2));
  EXPECT_THAT(firewall::AllElements(socket_), UnorderedElementsAreArray(DesiredOf(2).elements));
  EXPECT_EQ(firewall::FindAddress(socket_, Ip::Parse(Ip6(2)).value())->owner(), "veth2");
}

TEST_F(Ruleset, IsRestoredForAThousandAttachmentsInOneCommit) {
  std::vector<DesiredState> others;
  for (int n = 0; n < 1000; ++n) {
    const Ip ip = Ip::Parse("172.26.66.0")->Plus(static_cast<std::uint64_t>(n));
    DesiredState desired;
    desired.elements = firewall::Elements(
        {{.address = ip, .masquerade = true, .snat = true, .masquerade_all = true}},
        Cat("veth", n, ' ', std::string(100, 'x')));
    others.push_back(std::move(desired));
  }
  const std::uint32_t before = socket_.Generation();
  Restore(others);
  EXPECT_EQ(socket_.Generation(), nft::NextGeneration(nft::NextGeneration(before)))
      << "one for all of it, one for the hash of the rules";
  EXPECT_EQ(firewall::AllElements(socket_).size(), 4000U);
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "masqall4"}),
              HasSubstr("172.26.69.231"));
}

// 4,000 refusals in one answer.
TEST_F(Ruleset, ReportsEveryRefusalOfALargeBatch) {
  Put(DesiredOf(2));
  nft::Batch batch;
  for (int n = 0; n < 4000; ++n) {
    batch.AddElement(table_.id, DesiredOf(2).elements.front());
  }
  const nft::CommitReply reply = socket_.Commit(batch, socket_.Generation());
  EXPECT_FALSE(reply.done());
  EXPECT_EQ(reply.refused.size(), 4000U);
  EXPECT_EQ(reply.refused.back().message, 3999U);
  EXPECT_EQ(reply.refused.back().error, EEXIST);
  EXPECT_THAT(Put(DesiredOf(2)).repaired, IsEmpty()) << "the socket is out of step";
}

// The error is about the whole batch, not about one of its messages.
TEST_F(Ruleset, ReportsThatItMayNotBeChanged) {
  nft::Batch batch;
  batch.AddTable(table_.id);
  const std::uint32_t generation = socket_.Generation();
  ASSERT_EQ(::seteuid(65534), 0);
  const auto refusal =
      Caught([&] { static_cast<void>(nft::TryCommit(socket_, batch, generation)); });
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_THAT(refusal,
              IsError(Code::kKernel, "cannot change the nf_tables ruleset", HasSubstr("(EPERM)")));
}

TEST_F(Ruleset, ReportsWhichMessageTheKernelRefused) {
  DesiredState odd = DesiredOf(2);
  odd.elements.front().set = "absent";
  EXPECT_THAT(Caught([&] { Put(odd); }),
              IsError(Code::kKernel,
                      "cannot add the element of absent for 'veth2' to table inet nomad-bridge",
                      HasSubstr("(ENOENT)")));
  EXPECT_THAT(firewall::AllElements(socket_), IsEmpty()) << "half of it is there";
}

}  // namespace
}  // namespace nomad_bridge::test
