// Tables with verdict maps, intervals, ranges and refusals: committed by us, read by nft, and read
// back.
#include "netlink/core/netns.h"
#include "netlink/nft/socket.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using Verdict = nft::Verdict::Code;

const nft::TableId kVerdicts = {nft::TableFamily::kInet, "verdicts"};
const nft::Set kOffice = {.name = "adr4-office",
                          .key = {nft::Type::kIpv4Addr},
                          .flags = nft::kInterval};
const nft::Set kIn = {.name = "in4", .key = {nft::Type::kIpv4Addr}, .data = {nft::Type::kVerdict}};
const nft::Set kOut = {.name = "out6",
                       .key = {nft::Type::kIpv6Addr},
                       .data = {nft::Type::kVerdict}};

constexpr const char* kText = R"(table inet verdicts {
	set adr4-office {
		type ipv4_addr
		flags interval
		elements = { 10.20.0.0/16, 10.21.0.0-10.21.0.9 }
	}

	map in4 {
		type ipv4_addr : verdict
		elements = { 172.26.64.3 comment "veth1 alloc=5f3c" : goto in-9b21, 172.26.64.4 : return,
			     172.26.64.5 : drop, 172.26.64.6 : accept }
	}

	map out6 {
		type ipv6_addr : verdict
		elements = { fd00::3 : jump in-9b21 }
	}

	chain in-9b21 {
		ip saddr @adr4-office tcp dport 9090-9199 counter return comment "api#0"
		udp dport 53 drop
		tcp dport 80 reject with tcp reset
		counter reject with icmpx admin-prohibited
	}

	chain admit {
		ip daddr vmap @in4
		ip6 saddr vmap @out6
	}

	chain forward {
		type filter hook forward priority filter - 1; policy accept;
		ct state new,untracked jump admit
	}
}
)";

nft::Element ElementFor(const nft::Set& set, const std::string& address) {
  const Ip ip = Ip::Parse(address).value();
  return {.set = set.name, .key = {ip.bytes().begin(), ip.bytes().end()}};
}

nft::Element Deciding(const nft::Set& map,
                      const std::string& address,
                      nft::Verdict verdict,
                      const std::string& comment = "") {
  nft::Element element = ElementFor(map, address);
  element.verdict = std::move(verdict);
  element.comment = comment;
  return element;
}

nft::Element EndAt(const nft::Set& set, const std::string& address) {
  nft::Element element = ElementFor(set, address);
  element.ends_interval = true;
  return element;
}

class Verdicts : public World {
 protected:
  Verdicts() : socket_(nft::Socket::In(netlink::Netns::Current())) {
    nft::Batch batch;
    batch.AddTable(kVerdicts);
    for (const nft::Set& set : {kOffice, kIn, kOut}) {
      batch.AddSet(kVerdicts, set);
    }
    AddChains(batch);
    for (const std::vector<nft::Element>& elements : {in_, out_, office_}) {
      for (const nft::Element& element : elements) {
        batch.AddElement(kVerdicts, element);
      }
    }
    EXPECT_TRUE(socket_.Commit(batch, socket_.Generation()).done());
  }

  static void AddChains(nft::Batch& batch) {
    using Point = nft::Hook::Point;
    const nft::Hook forward = {.type = "filter", .point = Point::kForward, .priority = -1};
    batch.AddChain(kVerdicts, {.name = "in-9b21"});
    batch.AddChain(kVerdicts, {.name = "admit"});
    batch.AddChain(kVerdicts, {.name = "forward", .hook = forward});
    const nft::Rule allow = nft::Rule()
                                .Ipv4()
                                .SaddrIn(kOffice.name)
                                .L4Proto(6)
                                .Dport(9090, 9199)
                                .Counter()
                                .Return()
                                .Comment("api#0");
    batch.AppendRule(kVerdicts, "in-9b21", allow);
    batch.AppendRule(kVerdicts, "in-9b21", nft::Rule().L4Proto(17).Dport(53, 53).Drop());
    batch.AppendRule(kVerdicts, "in-9b21", nft::Rule().L4Proto(6).Dport(80, 80).RejectTcpReset());
    batch.AppendRule(kVerdicts, "in-9b21", nft::Rule().Counter().RejectAdminProhibited());
    batch.AppendRule(kVerdicts, "admit", nft::Rule().Ipv4().DaddrVmap(kIn.name));
    batch.AppendRule(kVerdicts, "admit", nft::Rule().Ipv6().SaddrVmap(kOut.name));
    batch.AppendRule(
        kVerdicts, "forward", nft::Rule().CtState(nft::kCtNew | nft::kCtUntracked).Jump("admit"));
  }

  const std::vector<nft::Element> in_ = {
      Deciding(kIn, "172.26.64.3", {Verdict::kGoto, "in-9b21"}, "veth1 alloc=5f3c"),
      Deciding(kIn, "172.26.64.4", {Verdict::kReturn, ""}),
      Deciding(kIn, "172.26.64.5", {Verdict::kDrop, ""}),
      Deciding(kIn, "172.26.64.6", {Verdict::kAccept, ""})};
  const std::vector<nft::Element> out_ = {Deciding(kOut, "fd00::3", {Verdict::kJump, "in-9b21"})};
  // Two that touch: the end of one is the beginning of the other.
  const std::vector<nft::Element> office_ = {ElementFor(kOffice, "10.20.0.0"),
                                             EndAt(kOffice, "10.21.0.0"),
                                             ElementFor(kOffice, "10.21.0.0"),
                                             EndAt(kOffice, "10.21.0.10")};
  nft::Socket socket_;
};

// Named counters: a rule that is replaced goes on with the counts that it had.
TEST_F(Verdicts, CountersOutliveTheRulesThatCountInThem) {
  const nft::Counter counter = {.name = "api-0-3644", .comment = "since 2026-11-24T06:40:00Z"};
  const auto commit = [&](const std::function<void(nft::Batch&)>& describe) {
    nft::Batch batch;
    describe(batch);
    ASSERT_TRUE(socket_.Commit(batch, socket_.Generation()).done());
  };
  commit([&](nft::Batch& batch) {
    batch.AddCounter(kVerdicts, counter);
    batch.AddChain(
        kVerdicts,
        {.name = "count", .hook = nft::Hook{.type = "filter", .point = nft::Hook::Point::kInput}});
    batch.AppendRule(kVerdicts, "count", nft::Rule().CountIn(counter.name));
  });
  EXPECT_TRUE(Ping(host(), "127.0.0.1"));
  const std::vector<nft::Counter> counted = socket_.Counters(kVerdicts);
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_EQ(counted[0].comment, counter.comment);
  EXPECT_GE(counted[0].packets, 2U);
  EXPECT_THAT(host().Must({"nft", "list", "chain", "inet", "verdicts", "count"}),
              HasSubstr(R"(counter name "api-0-3644")"));
  const std::string listed =
      host().Must({"nft", "list", "counter", "inet", "verdicts", counter.name});
  EXPECT_THAT(listed, HasSubstr(Format("packets {} ", counted[0].packets)));
  EXPECT_THAT(listed, HasSubstr(counter.comment));
  commit([&](nft::Batch& batch) {
    batch.FlushChain(kVerdicts, "count");
    batch.AddCounter(kVerdicts, {.name = counter.name, .comment = "another"});
    batch.AppendRule(kVerdicts, "count", nft::Rule().CountIn(counter.name).Accept());
  });
  EXPECT_EQ(socket_.Counters(kVerdicts), counted);
  commit([&](nft::Batch& batch) {
    batch.FlushChain(kVerdicts, "count");
    batch.DeleteCounter(kVerdicts, counter.name);
  });
  EXPECT_THAT(socket_.Counters(kVerdicts), IsEmpty());
}

TEST_F(Verdicts, HaveAHashThatChangesOnlyWithTheRulesOfTheirTable) {
  const std::uint64_t before = socket_.HashOfRules(kVerdicts);
  EXPECT_EQ(socket_.HashOfRules(kVerdicts), before);
  host().Nft("table inet foreign { chain c { accept; }; }");
  host().Nft("add element inet verdicts in4 { 172.26.64.9 : accept }");
  host().Nft("add chain inet verdicts empty");
  EXPECT_EQ(socket_.HashOfRules(kVerdicts), before);
  host().Nft(
      "add chain inet verdicts base { type filter hook forward priority 9; policy accept; }");
  const std::uint64_t with_base = socket_.HashOfRules(kVerdicts);
  EXPECT_NE(with_base, before);
  host().Nft("chain inet verdicts base { policy drop; }");
  EXPECT_NE(socket_.HashOfRules(kVerdicts), with_base);
  host().Nft("delete chain inet verdicts base");
  EXPECT_EQ(socket_.HashOfRules(kVerdicts), before);
  host().Nft("add rule inet verdicts in-9b21 tcp dport 1 accept");
  EXPECT_NE(socket_.HashOfRules(kVerdicts), before);
  EXPECT_NE(socket_.HashOfRules({.name = "absent"}), before);
}

TEST_F(Verdicts, AreReadByNft) {
  EXPECT_EQ(host().Must({"nft", "-s", "list", "table", "inet", "verdicts"}), kText);
}

TEST_F(Verdicts, EqualWhatNftMakesOfTheirText) {
  const auto table = [](const Node& node) {
    json list = node.Json({"nft", "-j", "list", "table", "inet", "verdicts"});
    for (json& item : list.at("nftables")) {
      for (json& object : item) {
        object.erase("handle");
      }
    }
    return list;
  };
  outside().Nft(kText);
  EXPECT_EQ(table(host()), table(outside()));
}

TEST_F(Verdicts, AreReadBack) {
  EXPECT_THAT(socket_.Sets(kVerdicts), UnorderedElementsAreArray({kOffice, kIn, kOut}));
  EXPECT_THAT(socket_.Elements(kVerdicts, kIn.name), UnorderedElementsAreArray(in_));
  EXPECT_THAT(socket_.Elements(kVerdicts, kOut.name), UnorderedElementsAreArray(out_));
  EXPECT_THAT(socket_.Elements(kVerdicts, kOffice.name), UnorderedElementsAreArray(office_));
  for (const nft::Element& element : in_) {
    EXPECT_EQ(socket_.FindElement(kVerdicts, element), element);
  }
}

TEST_F(Verdicts, KeepTheirChainUntilTheElementIsDeleted) {
  nft::Batch chain;
  chain.FlushChain(kVerdicts, "in-9b21");
  chain.DeleteChain(kVerdicts, "in-9b21");
  EXPECT_EQ(socket_.Commit(chain, socket_.Generation()).refused.at(0).error, EBUSY);
  nft::Batch both;
  both.DeleteElement(kVerdicts, in_.front());
  both.DeleteElement(kVerdicts, out_.front());
  both.FlushChain(kVerdicts, "in-9b21");
  both.DeleteChain(kVerdicts, "in-9b21");
  EXPECT_TRUE(socket_.Commit(both, socket_.Generation()).done());
}

}  // namespace
}  // namespace nomad_bridge::test
