// Our table in the kernel: created, repaired, shared and left alone. Read back with nft.
#include <unistd.h>

#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

using firewall::Change;

constexpr const char* kForwardChain = "chain forward in table inet nomad-bridge was changed";

class Ruleset : public RulesetWorld {
 protected:
  std::string List(const std::string& what = "table inet nomad-bridge") {
    return host().Must(Words(Cat("nft list ", what)));
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

TEST_F(Ruleset, IsCreatedOnABareMachine) {
  Put(DesiredOf(2));
  EXPECT_THAT(List(),
              HasSubstr("elements = { 172.26.64.2 comment \"veth2 job=billing alloc=2\" }"));
  EXPECT_THAT(List(), HasSubstr("elements = { \"nomad\" }"));
}

TEST_F(Ruleset, StaysAsItIsIfNothingIsToBeDone) {
  const auto first = Put(DesiredOf(2));
  const std::string before = List();
  const auto again = Put(DesiredOf(2), {DesiredOf(2)});
  EXPECT_EQ(again.generation, first.generation) << "something was committed";
  EXPECT_THAT(again.repaired, IsEmpty());
  EXPECT_EQ(List(), before);
}

TEST_F(Ruleset, IsChangedAgainOnTheGenerationOfTheLastChange) {
  std::optional<std::uint32_t> generation = Put(DesiredOf(2)).generation;
  for (const int n : {3, 4, 5}) {
    generation = Commit(Adding(DesiredOf(n)), generation.value()).generation;
    EXPECT_THAT(List(), HasSubstr(Cat(Ip4(n), " comment")));
  }
  generation = firewall::RemoveElements(socket_, DesiredOf(4).elements, generation);
  generation = Commit(Adding(DesiredOf(6)), generation.value()).generation;
  EXPECT_NE(generation, std::nullopt);
  EXPECT_THAT(List(), Not(HasSubstr("veth4")));
}

TEST_F(Ruleset, IsNotChangedAfterAForeignChange) {
  const auto outcome = Put(DesiredOf(2));
  host().Nft("add table ip foreign");
  const std::string before = List();
  const auto refused = Commit(Adding(DesiredOf(3)), outcome.generation.value());
  EXPECT_EQ(refused.generation, std::nullopt);
  EXPECT_FALSE(refused.conflict || refused.refusal);
  EXPECT_EQ(List(), before);
  EXPECT_EQ(firewall::RemoveElements(socket_, DesiredOf(3).elements, outcome.generation),
            std::nullopt)
      << "an old generation was taken for valid";
}

// A foreign change between reading and committing.
TEST_F(Ruleset, IsPlannedAnewIfItWasChangedMeanwhile) {
  int asked = 0;
  Put(DesiredOf(2));
  host().Nft("add element inet nomad-bridge alloc4 { 192.0.2.9 comment \"veth9\" }");
  const firewall::DesiredElements desired{.elements = DesiredOf(2).elements,
                                          .may_stay = [&](const nft::Element&) {
                                            if (++asked == 1) {
                                              host().Nft("flush chain inet nomad-bridge forward");
                                            }
                                            return false;
                                          }};
  const auto restored = Compare(GoalOf({DesiredOf(2)}), &desired);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(List(), HasSubstr("@alloc4 meta mark set"));
  EXPECT_THAT(List(), Not(HasSubstr("veth9")));
  EXPECT_EQ(restored->generation, socket_.Generation());
}

// What costs the same whatever the number of elements.
TEST_F(Ruleset, HasItsTableRestoredWithoutReadingElements) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft("flush chain inet nomad-bridge forward");
  const auto restored = Compare(GoalOf({DesiredOf(2)}), nullptr);
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->repaired, ElementsAre(kForwardChain));
  EXPECT_EQ(List(), before);
  host().Nft("flush ruleset");
  EXPECT_FALSE(Compare(GoalOf({DesiredOf(2)}), nullptr)) << "elements are lost";
  EXPECT_EQ(List("ruleset"), "");
}

TEST_F(Ruleset, IsWokenIfItIsDormant) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft("add table inet nomad-bridge { flags dormant; }");
  const auto restored = Compare(GoalOf({DesiredOf(2)}), nullptr);
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->repaired, ElementsAre("table inet nomad-bridge is dormant"));
  EXPECT_EQ(List(), before);
}

TEST_F(Ruleset, ComesBackWithAllItsElementsAfterAFlush) {
  Put(DesiredOf(2));
  Put(DesiredOf(3), {DesiredOf(2)});
  const std::string before = List();
  host().Nft("flush ruleset");
  const auto outcome = Put(DesiredOf(3), {DesiredOf(2)});
  EXPECT_EQ(List(), before);
  EXPECT_THAT(outcome.repaired,
              ElementsAre("the forwarding rules in table ip filter are missing",
                          "the forwarding rules in table ip6 filter are missing",
                          "table inet nomad-bridge is missing"));
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
    {"AnElementGone",
     "delete element inet nomad-bridge masq4 { 172.26.64.2 }",
     "172.26.64.2 in masq4 of veth2 is missing"},
    {"AnElementOfIpv6Gone",
     "delete element inet nomad-bridge alloc6 { fd00:26::2 }",
     "fd00:26::2 in alloc6 of veth2 is missing"},
    {"TheBridgeGone",
     "delete element inet nomad-bridge bridges { nomad }",
     "nomad in bridges is missing"},
    {"AnotherComment",
     "delete element inet nomad-bridge snat4 { 172.26.64.2 }\n"
     "add element inet nomad-bridge snat4 { 172.26.64.2 comment \"veth2 other\" }",
     "172.26.64.2 in snat4 of veth2 was changed"},
    {"AChainEmptied", "flush chain inet nomad-bridge forward", kForwardChain},
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
    {"AnotherHook",
     "delete table inet nomad-bridge\n"
     "table inet nomad-bridge { chain forward { type filter hook forward priority 5; }; }",
     kWholeTable},
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
  EXPECT_THAT(Restore({DesiredOf(2)}).repaired,
              ElementsAre("set old in table inet nomad-bridge is left over",
                          "set old_verdicts in table inet nomad-bridge is left over",
                          "chain old_rules in table inet nomad-bridge is left over",
                          "chain old_hook in table inet nomad-bridge is left over"));
  EXPECT_EQ(List(), before);
}

TEST_F(Ruleset, LosesElementsThatMayNotStay) {
  Put(DesiredOf(2));
  const std::string before = List();
  host().Nft("add element inet nomad-bridge alloc4 { 192.0.2.9 comment \"veth9 x\" }");
  const auto restore = [&](bool may_stay) {
    const firewall::DesiredElements desired{
        .elements = DesiredOf(2).elements,
        .may_stay = [&](const nft::Element&) { return may_stay; }};
    return *Compare(GoalOf({DesiredOf(2)}), &desired);
  };
  EXPECT_THAT(restore(true).repaired, IsEmpty());
  EXPECT_THAT(List(), HasSubstr("192.0.2.9"));
  EXPECT_THAT(restore(false).repaired, ElementsAre("192.0.2.9 in alloc4 of veth9 has no owner"));
  EXPECT_EQ(List(), before);
}

class TakenElement : public Ruleset, public ::testing::WithParamInterface<bool> {
 protected:
  // On a checkpoint, and compared first.
  firewall::CommitResult Try(const Change& change,
                             std::optional<std::uint32_t> generation,
                             const std::vector<DesiredState>& others = {}) {
    return Commit(change, GetParam() ? generation : std::nullopt, others);
  }
};

TEST_P(TakenElement, IsReportedWithItsOwnerAndStays) {
  const auto first = Put(DesiredOf(2));
  const std::string before = List();
  const auto outcome = Try(Adding(ClaimOfAnother()), first.generation, {DesiredOf(2)});
  ASSERT_TRUE(outcome.conflict);
  EXPECT_EQ(outcome.conflict->present.owner(), "veth2");
  EXPECT_EQ(outcome.conflict->wanted.owner(), "veth3");
  EXPECT_EQ(List(), before);
}

TEST_P(TakenElement, IsTakenOverFromAStaleOwnerInOneBatch) {
  const auto first = Put(DesiredOf(2));
  Change change = Adding(ClaimOfAnother());
  change.stale_owners = {"veth2"};
  const auto outcome = Try(change, first.generation);
  EXPECT_FALSE(outcome.conflict);
  EXPECT_EQ(outcome.generation, first.generation.value() + 1) << "more than one commit";
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth3"));
  EXPECT_THAT(List(), Not(HasSubstr("veth2")));
}

TEST_P(TakenElement, IsReplacedByItsOwner) {
  const auto first = Put(DesiredOf(2));
  DesiredState relabelled = DesiredOf(2);
  for (nft::Element& element : relabelled.elements) {
    element.comment = element.comment.empty() ? "" : "veth2 job=new";
  }
  EXPECT_FALSE(Try(Adding(relabelled), first.generation).conflict);
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth2 job=new\""));
  EXPECT_THAT(List(), Not(HasSubstr("billing")));
}

TEST_P(TakenElement, IsRemovedOnlyByItsOwner) {
  const auto first = Put(DesiredOf(2));
  Change change = Adding(DesiredOf(4));
  change.remove_owned = ClaimOfAnother().elements;  // veth3 never had them
  const auto second = Try(change, first.generation, {DesiredOf(2)});
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth2"));
  change = Adding(DesiredOf(5));
  change.remove_owned = DesiredOf(2).elements;
  Try(change, second.generation, {DesiredOf(4)});
  EXPECT_THAT(List(), Not(HasSubstr("veth2")));
  EXPECT_THAT(List(), HasSubstr("\"nomad\"")) << "the bridge is shared";
}

INSTANTIATE_TEST_SUITE_P(Ruleset, TakenElement, ::testing::Bool(), [](const auto& checkpoint) {
  return checkpoint.param ? "OnACheckpoint" : "Compared";
});

// A flush must not let the next ADD take the elements of a live attachment.
TEST_F(Ruleset, KeepsTheElementsOfLiveAttachmentsAfterAFlush) {
  const auto outcome = Put(ClaimOfAnother(), {DesiredOf(2)});
  ASSERT_TRUE(outcome.conflict);
  EXPECT_EQ(outcome.conflict->present.owner(), "veth2");
}

TEST_F(Ruleset, KeepsAnElementThatNowHasAnotherOwner) {
  Put(DesiredOf(2));
  host().Nft(
      "delete element inet nomad-bridge alloc4 { 172.26.64.2 }\n"
      "add element inet nomad-bridge alloc4 { 172.26.64.2 comment \"veth9 x\" }");
  const auto outcome = Put(DesiredOf(3), {DesiredOf(2)});
  EXPECT_THAT(outcome.repaired, IsEmpty());
  EXPECT_THAT(List(), HasSubstr("172.26.64.2 comment \"veth9 x\""));
}

TEST_F(Ruleset, LosesOnlyTheElementsThatAreRemoved) {
  Put(DesiredOf(2));
  const std::string before = List();
  Put(DesiredOf(3), {DesiredOf(2)});
  static_cast<void>(firewall::RemoveElements(socket_, DesiredOf(3).elements, std::nullopt));
  EXPECT_EQ(List(), before);
  static_cast<void>(firewall::RemoveElements(socket_, DesiredOf(3).elements, std::nullopt));
  EXPECT_EQ(List(), before) << "a second time";
}

TEST_F(Ruleset, MayBeAbsentWhenElementsAreRemoved) {
  EXPECT_EQ(firewall::RemoveElements(socket_, DesiredOf(3).elements, std::nullopt), std::nullopt);
  EXPECT_THAT(firewall::OwnedElements(socket_), IsEmpty());
  EXPECT_EQ(firewall::FindAddress(socket_, Ip::Parse(Ip4(2)).value()), std::nullopt);
  EXPECT_EQ(host().Must({"nft", "list", "ruleset"}), "");
}

TEST_F(Ruleset, ListsElementsThatHaveAnOwner) {
  Put(DesiredOf(2));
  std::vector<nft::Element> expected = DesiredOf(2).elements;
  std::erase_if(expected, [](const nft::Element& element) { return element.owner().empty(); });
  EXPECT_THAT(firewall::OwnedElements(socket_), UnorderedElementsAreArray(expected));
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
  const auto restored = Restore(others);
  EXPECT_EQ(socket_.Generation(), nft::NextGeneration(before)) << "more than one commit";
  EXPECT_EQ(firewall::OwnedElements(socket_).size(), 4000U);
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "masqall4"}),
              HasSubstr("172.26.69.231"));
  EXPECT_EQ(restored.generation, socket_.Generation());
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
  EXPECT_THAT(firewall::OwnedElements(socket_), IsEmpty()) << "half of it is there";
}

}  // namespace
}  // namespace nomad_bridge::test
