// Bridges that somebody else than their maker changes: a stray port, another MAC, an uplink or an
// address that is lost.
#include <fcntl.h>

#include "tests/plugin/lan_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class Bridges : public CliWorld {
 protected:
  // Plugs a card into "nomad", without a cable.
  void PlugIn() {
    host().Must(Words("ip link add card up type veth peer name cable"));
    host().Must(Words("ip link set card master nomad"));
  }

  static json AdoptedIn(const std::string& container_id) {
    return ReadRecord(container_id).at("link").at("adopted");
  }

  static std::size_t Count(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  // A second network on bridge "nomad".
  const json second_ =
      Config({{"name", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}, {"isGateway", false}});
};

TEST_F(Bridges, OfOursAreALansOnlyAsLongAsAStrayPortIsThere) {
  Attach(DualStack());
  Attach(kOther, As("other", AddContainer("other")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  const std::string table = ListTable();
  const json bridge = LinkOn(host(), "nomad");
  PlugIn();
  EXPECT_THAT(RunLine("reconcile -if-changed"),
              Exits(0, Err(HasSubstr("bridge 'nomad' has an uplink, 'card', and its records"))));
  EXPECT_TRUE(AdoptedIn("alloc-1"));

  const json doctor = RunLine("doctor -json bridge").json;
  json stray;
  for (const json& check : doctor.at("checks")) {
    stray = check.at("check") == "bridge.uplink" ? check : stray;
  }
  EXPECT_EQ(stray.at("verdict"), "warn");
  EXPECT_THAT(stray.at("what"), HasSubstr("'card' is a port of bridge 'nomad' of ours: what is"));
  EXPECT_EQ(stray.at("fix"), "ip link set card nomaster");
  host().Must({"sh", "-ec", stray.at("fix")});

  EXPECT_THAT(RunLine("reconcile -n"),
              Exits(1, Out(HasSubstr("bridge 'nomad' has no uplink, and its records say it has"))));
  EXPECT_THAT(RunLine("reconcile -if-changed"), Exits(0, Err(HasSubstr("has no uplink"))));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_EQ(ListTable(), table);
  EXPECT_EQ(LinkOn(host(), "nomad").at("addr_info"), bridge.at("addr_info"));
  EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));

  Attach(DualStack(), As("later", AddContainer("later")));
  EXPECT_FALSE(AdoptedIn("later"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

TEST_F(Bridges, OfOursAreNoLansForAnAddOnceTheStrayPortIsGone) {
  Attach(DualStack());
  PlugIn();
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has an uplink"))));
  Detach(DualStack());
  host().Must(Words("ip link set card nomaster"));
  EXPECT_THAT(RunLine("down -n"), Exits(0, Out(HasSubstr("bridge nomad: would be removed"))));
  Attach(DualStack());
  EXPECT_FALSE(AdoptedIn("alloc-1"));
  EXPECT_THAT(Elements("gateways").dump(), HasSubstr("nomad"));
}

// What was noted of it before is lost, as after an upgrade.
TEST_F(Bridges, OfOursAreLansForAFirstAddThatKnowsNothingOfThem) {
  Attach(DualStack());
  PlugIn();
  ASSERT_TRUE(fs::remove("/run/nomad-bridge/.generation"));
  EXPECT_THAT(RunLine("reconcile -n"),
              Exits(1, Out(HasSubstr("has an uplink, 'card', and its records say it has none"))));
  Attach(DualStack(), As("first", AddContainer("first")));
  Attach(DualStack(), As("second", AddContainer("second")));
  EXPECT_TRUE(AdoptedIn("first"));
  EXPECT_TRUE(AdoptedIn("second"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("its records say it has none"))));
  ASSERT_TRUE(fs::remove("/run/nomad-bridge/.generation"));
  EXPECT_THAT(RunLine("reconcile -n").out, Not(HasSubstr("uplink")));
  EXPECT_THAT(RunLine("reconcile").err, Not(HasSubstr("uplink")));
}

// As a reconcile leaves it that was killed before it had noted the port.
TEST_F(Bridges, OfOursWhoseUplinkOnlyTheRecordsHaveAreNamedSo) {
  Attach(DualStack());
  PlugIn();
  json record = ReadRecord("alloc-1");
  record["link"]["adopted"] = true;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"),
              Exits(0, Err(HasSubstr("has an uplink, 'card', which is not noted"))));
  host().Must(Words("ip link set card nomaster"));
  record["link"]["adopted"] = false;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has lost its uplink"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

TEST_F(Bridges, OfOursThatTheirOperatorMadeHisAreHisToMakeAgain) {
  Attach(DualStack());
  PlugIn();
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has an uplink"))));
  host().Must(Words("ip link delete nomad"));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1, Err(HasSubstr("bridge 'nomad', which is its operator's, is gone"))));
  EXPECT_FALSE(HasInterface(host(), "nomad"));
}

// As a reconcile leaves them that was killed between two records.
TEST_F(Bridges, OfOursAreTheSameInAllRecords) {
  Attach(Config());
  Attach(second_, As("second", AddContainer("second")));
  json record = ReadRecord("alloc-1");
  record["link"]["adopted"] = true;
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("has no uplink"))));
  EXPECT_FALSE(AdoptedIn("alloc-1"));
}

TEST_F(Bridges, WithAnotherMacAreNamedOnceForSeveralNetworks) {
  Attach(Config());
  Attach(second_, As("second", AddContainer("second")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));
  const std::string changed = "the MAC of bridge 'nomad' was changed";
  EXPECT_EQ(Count(RunLine("reconcile -n").out, changed), 1U);
  EXPECT_THAT(RunLine("doctor -json bridge.intact").out, Not(HasSubstr("more)")));
  EXPECT_EQ(Count(RunLine("reconcile").err, changed), 1U);
}

// ---- an operator's own, to his LAN

class OperatorsBridge : public LanWorld {
 protected:
  [[nodiscard]] std::string FixOf(const std::string& verdict, const std::string& what) {
    const json document = RunLine("doctor -json bridge.uplink").json;
    const json& check = document.at("checks").at(0);
    EXPECT_EQ(check.at("verdict"), verdict) << check;
    EXPECT_EQ(check.at("what"), what);
    return check.at("fix");
  }
};

TEST_F(OperatorsBridge, ThatIsGoneIsHisToMakeAgain) {
  const std::string gone = "bridge 'lan', which is its operator's, is gone";
  const std::string advice =
      "advice: let the node's network service make it again, with its uplink; then: nomad-bridge "
      "reconcile";
  for (const json& config : {OnLan(), OnLanBehindTheNode()}) {
    const json add = Attach(Publish({Port(8080, 80)}, config));
    host().Must(Words("ip link delete lan"));

    for (int twice = 0; twice < 2; ++twice) {
      EXPECT_THAT(RunLine("reconcile"),
                  Exits(1, Err(AllOf(HasSubstr(Cat(gone, "; ", advice)), Not(HasSubstr("127."))))));
    }
    EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(Not(HasSubstr("no port of")))));
    EXPECT_THAT(RunLine("doctor bridge.intact"),
                Exits(1, Out(AllOf(HasSubstr(gone), HasSubstr(advice)))));
    EXPECT_THAT(RunLine("inspect alloc-1"),
                Exits(1, Out(AllOf(HasSubstr(gone), HasSubstr(advice)))));
    EXPECT_THAT(MustCheck(Publish({Port(8080, 80)}, config), add), Err(HasSubstr(gone)));
    EXPECT_THAT(MustRefuse(102, config, As("other", other_)), Msg(gone));
    EXPECT_FALSE(HasInterface(host(), "lan"));

    host().Must(
        {"sh",
         "-ec",
         Cat("ip link add lan up type bridge; ip link set uplink master lan; ip address add ",
             kHostIp4,
             "/24 dev lan; ip address add ",
             kHostIp6,
             "/64 dev lan nodad")});
    EXPECT_THAT(RunLine("reconcile -if-changed"), Exits(0));
    const std::string address = AddressOf(add);
    EXPECT_EQ(AskOutside(container(), kOutsideIp4), (Reply{"outside", address}));
    EXPECT_THAT(RunLine("doctor -quiet bridge"), Exits(0, Out(HasSubstr("0 warnings"))));
    Detach(config);
  }
}

// Each line as a whole.
TEST_F(OperatorsBridge, ThatIsGoneIsNamedOnceForSeveralNetworks) {
  json second = OnLan({{"name", "second"}});
  second["ipam"]["ranges"][0][0]["rangeStart"] = "198.51.100.60";
  second["ipam"]["ranges"][1][0]["rangeStart"] = "2001:db8:100::60";
  Attach(OnLanBehindTheNode());
  Attach(second, As("second", AddContainer("second")));
  host().Must(Words("ip link delete lan"));
  const std::string gone = "bridge 'lan', which is its operator's, is gone";
  const std::string advice =
      "advice: let the node's network service make it again, with its uplink; then: nomad-bridge "
      "reconcile";

  EXPECT_THAT(RunLine("reconcile -n"),
              Exits(1, Out(Cat(gone, "; ", advice, "\n2 attachments; 1 to repair\n"))));
  EXPECT_THAT(RunLine("reconcile"),
              Exits(1,
                    AllOf(Out("2 attachments; 1 found wrong, 1 could not be repaired\n"),
                          Err(Cat("nomad-bridge: ", gone, "; ", advice, "\n")))));
  EXPECT_THAT(RunLine("doctor -quiet bridge.intact"),
              Exits(1,
                    Out(Cat("FAIL  bridge.intact         ",
                            gone,
                            "\n      ",
                            advice,
                            "\n1 failure, 0 warnings, 0 ok\n"))));
}

TEST_F(OperatorsBridge, ThatHasLostItsUplinkIsNamed) {
  Attach(OnLan());
  host().Must(Words("ip link set uplink nomaster"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  const std::string lost =
      "'uplink' is no port of bridge 'lan' any more, and was its way to the LAN";
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(1, Out(HasSubstr(lost))));

  host().Must({"sh", "-ec", FixOf("fail", lost)});
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(0));
}

TEST_F(OperatorsBridge, WhoseUplinkCarriesNothingIsNamed) {
  Attach(OnLan());
  const auto answers = [&] {
    return test::Ask(container(), {.to = kOutsideIp4, .port = kPort}).has_value();
  };
  ASSERT_TRUE(answers());
  const std::string says = "'uplink', the way of bridge 'lan' to its LAN, ";
  for (const auto& [damage, state] :
       {std::pair{"ip link set uplink down", "is down"},
        std::pair{"bridge link set dev uplink state 0", "does not forward"}}) {
    host().Must(Words(damage));
    EXPECT_FALSE(answers());
    host().Must({"sh", "-ec", FixOf("fail", Cat(says, state))});
    EXPECT_TRUE(answers());
    EXPECT_EQ(FixOf("ok", ""), "");
  }
}

TEST_F(OperatorsBridge, HasNotLostAnUplinkThatIsAnotherBridgesNow) {
  Attach(OnLan());
  host().Must(Words("ip link add wan type bridge"));
  host().Must(Words("ip link set uplink master wan"));
  EXPECT_EQ(FixOf("ok", ""), "");
  EXPECT_THAT(RunLine("inspect alloc-1"), Out(Not(HasSubstr("was its way"))));
}

TEST_F(OperatorsBridge, HasNotLostAnUplinkThatWasReplaced) {
  Attach(OnLan());
  host().Must(Words("ip link add card up type veth peer name cable"));
  host().Must(Words("ip link set uplink nomaster"));
  host().Must(Words("ip link set card master lan"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, HasLostNothingWithAVirtualMachineOrAContainer) {
  host().Must(Words("ip link set uplink nomaster"));
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link add vb-guest master lan type veth peer name host0 netns other"));
  Attach(OnLan());
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  host().Must(Words("ip link delete vnet0"));
  host().Must(Words("ip link delete vb-guest"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, HasNoUplinkInAVirtualMachine) {
  Attach(OnLan());
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link set uplink nomaster"));
  EXPECT_EQ(
      FixOf("fail", "'uplink' is no port of bridge 'lan' any more, and was its way to the LAN"),
      "ip link set uplink up master lan");
}

TEST_F(OperatorsBridge, ThatHasLostTheNodesAddressIsNamed) {
  Attach(OnLan());
  host().Must(Words(Cat("ip address delete ", kHostIp4, "/24 dev lan")));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  const std::string lost = Format("the node has lost its address {}/24 on bridge 'lan'", kHostIp4);
  EXPECT_THAT(RunLine("inspect alloc-1"), Exits(1, Out(HasSubstr(lost))));
  host().Must({"sh", "-ec", FixOf("warn", lost)});
  EXPECT_EQ(FixOf("ok", ""), "");

  host().Must(Words(Cat("ip address add 203.0.113.9/24 dev lan")));
  host().Must(Words(Cat("ip address delete ", kHostIp4, "/24 dev lan")));
  EXPECT_EQ(FixOf("ok", ""), "") << "it has another one";
}

TEST_F(OperatorsBridge, HasNotLostTheAddressOfAGatewayOfOurs) {
  host().Must(Words("ip address flush dev lan scope global"));
  const json config = Config({{"name", "behind"}, {"bridge", "lan"}});
  Attach(config);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
  host().Must(Words("ip -4 address flush dev lan"));
  EXPECT_EQ(FixOf("ok", ""), "");
}

TEST_F(OperatorsBridge, ThatIsGoneAndHadNoUplinkIsMadeAgainWithoutOne) {
  host().Must(Words("ip link add empty type bridge"));
  Attach(OnLan({{"bridge", "empty"}}));
  host().Must(Words("ip link delete empty"));
  EXPECT_THAT(
      RunLine("reconcile"),
      Exits(1,
            Err(HasSubstr("bridge 'empty', which is its operator's, is gone; advice: let the "
                          "node's network service make it again; then: nomad-bridge "
                          "reconcile"))));
}

TEST_F(OperatorsBridge, KeepsWhatAReconcileNotesWhileAnAddWaitsForTheLock) {
  constexpr const char* kNoted = "/run/nomad-bridge/.generation";
  Attach(OnLan());
  const std::string noted = FindFile(kNoted).value();
  ASSERT_TRUE(fs::remove(kNoted));
  host().Must(Words("ip tuntap add vnet0 mode tap"));
  host().Must(Words("ip link set vnet0 master lan"));
  host().Must(Words("ip link set uplink nomaster"));

  UniqueFd lock(::open("/run/nomad-bridge/.lock", O_RDWR | O_CLOEXEC));
  struct flock rules {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1
  };
  ASSERT_EQ(::fcntl(lock.get(), F_OFD_SETLK, &rules), 0);
  Process add = StartPlugin("ADD", OnLan(), As("other", other_));
  // One descriptor is for its own attachment's lock, the other one for that of the rules.
  ASSERT_TRUE(Soon([&] {
    const fs::directory_iterator fds(Format("/proc/{}/fd", add.pid()));
    return std::ranges::count_if(fds, [](const fs::directory_entry& fd) {
             std::error_code gone;
             return fs::read_symlink(fd, gone) == "/run/nomad-bridge/.lock";
           }) == 2;
  }));
  ReplaceFile(kNoted, noted);
  lock = UniqueFd();

  EXPECT_THAT(add.Wait(), Exits(0));
  EXPECT_EQ(json::parse(FindFile(kNoted).value()).at("knownBridges").at("lan").at("uplinks"),
            json::array({"uplink"}));
}

// ---- a host veth

TEST_F(Bridges, KnowWhosePortItIsAgainByItsAlias) {
  const json add = Attach(Config(), As("alloc-1", container(), NomadArgs("billing", "alloc-1")));
  const std::string veth = HostVethOf(add);
  const std::string alias = LinkOn(host(), veth).at("ifalias");
  host().Must({"ip", "link", "set", veth, "alias", ""});

  const std::string lost = Format("the alias of {} is missing", veth);
  EXPECT_THAT(RunLine("doctor bridge.ports"), Exits(1, Out(HasSubstr(lost))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr(Cat("repaired: ", lost)))));
  EXPECT_EQ(LinkOn(host(), veth).at("ifalias"), alias);
}

}  // namespace
}  // namespace nomad_bridge::test
