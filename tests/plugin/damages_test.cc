// Each damage of fixtures/damages.txt: what real clients see, and what inspect, doctor, metrics,
// reconcile and CHECK say of it. They say the same, change nothing, and their fix heals it.
#include "tests/plugin/damage_world.h"

namespace nomad_bridge::test {
namespace {

class Damaged : public DamageWorld {
 protected:
  // What stands in for the programs that this machine has not: each does what the real one would.
  void MakeOthersPrograms() {
    host().Must({"sh",
                 "-ec",
                 R"(mkdir -p /run/stubs; cd /run/stubs; printf '%s' "$1" >conf
cat >nomad <<END
[ "\$1 \$2" = "alloc stop" ] && CNI_COMMAND=DEL CNI_CONTAINERID=\$3 CNI_IFNAME=eth0 \
  CNI_PATH=/opt/cni/bin /opt/cni/bin/nomad-bridge </run/stubs/conf
END
cat >networkctl <<END
grep -q Unmanaged=yes /etc/systemd/network/10-nomad-bridge.network
for link in /run/systemd/netif/links/*; do echo ADMIN_STATE=unmanaged >\$link; done
END
cat >nmcli <<END
grep -q 'interface-name:nomad' /etc/NetworkManager/conf.d/10-nomad-bridge.conf
for link in /run/NetworkManager/devices/*; do echo managed=false >\$link; done
END
for name in nomad networkctl nmcli; do sed -i '1i#!/bin/sh -e' $name; chmod +x $name; done)",
                 "sh",
                 config_.dump()});
  }

  [[nodiscard]] std::string Says() const { return Filled(GetParam().says); }

  void ExpectInspectSaysIt() {
    const Outcome inspect = Inspect(FirstWay());
    said_ = Causes(inspect);
    if (GetParam().station.empty()) {
      EXPECT_EQ(said_, json::array());
      return;
    }
    EXPECT_EQ(inspect.exit_code, 1) << inspect;
    EXPECT_THAT(At(said_, "/0/what").get<std::string>(), HasSubstr(Says()));
    EXPECT_EQ(StationOf(inspect), GetParam().station) << inspect;
    if (GetParam().station != "-") {
      EXPECT_NE(At(inspect.json, "/attachments/0/diagnosis/cause"), nullptr);
    }
  }

  void ExpectDoctorSaysIt() {
    const std::vector<json> found = Examine(NeedsProbe());
    std::vector<std::string> is;
    std::vector<std::string> expected;
    for (const json& each : found) {
      is.push_back(
          Cat(each.at("verdict").get<std::string>(), ' ', each.at("check").get<std::string>()));
    }
    for (const std::vector<std::string>& check : GetParam().checks) {
      expected.push_back(Cat(check.at(0), ' ', check.at(1)));
    }
    ASSERT_EQ(is, expected) << json(found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string& other = GetParam().checks[i].at(2);
      EXPECT_THAT(found[i].at("what").get<std::string>(),
                  HasSubstr(other.empty() ? Says() : Filled(other)));
    }
    if (said_.empty()) {
      said_ = found;
    }
  }

  void ExpectMetricsCountIt() {
    const Outcome metrics = Run({"metrics"}, {{"CNI_PATH", std::nullopt}});
    for (const std::vector<std::string>& check : GetParam().checks) {
      if (check.at(1) != "ports.probe") {  // metrics send nothing
        EXPECT_THAT(metrics.out,
                    ::testing::ContainsRegex(Format(
                        "\\{check=\"{}\",verdict=\"{}\"\\} [1-9]", check.at(1), check.at(0))));
      }
    }
  }

  void ExpectReconcileSaysIt() {
    const bool is_found = !GetParam().reconcile.empty();
    const Outcome outcome = RunLine("reconcile -dry-run");
    EXPECT_THAT(outcome, Exits(is_found ? 1 : 0, Out(HasSubstr(is_found ? Says() : "nothing"))));
    EXPECT_EQ(outcome.out.find("cannot be repaired") != std::string::npos,
              GetParam().reconcile == "names");
    json no_repair = config_;
    no_repair["repairOnCheck"] = false;
    const Outcome check = Check(no_repair, add_);
    EXPECT_THAT(check, Exits(GetParam().is_refused ? 1 : 0));
    if (GetParam().reconcile == "repairs") {
      EXPECT_THAT(check, Fails(103, Details(HasSubstr(Says()))));
    }
  }

  // The node's, which no fix may take away.
  [[nodiscard]] std::string DefaultRoutes() {
    return Cat(host().Must(Words("ip route show default")),
               host().Must(Words("ip -6 route show default")));
  }

  void Heal() {
    EXPECT_THAT(At(said_, Cat("/0/", GetParam().remedy)).get<std::string>(),
                HasSubstr(Filled(GetParam().fix)));
    if (GetParam().remedy == "fix") {
      const std::string kept = DefaultRoutes();
      PasteFixes(said_);
      EXPECT_EQ(DefaultRoutes(), kept);
      RestoreOperatorsRules();
      ExpectHealed();
    }
  }

  json said_;  // by inspect, or else by doctor
};

TEST_P(Damaged, IsNamedAlikeByAllAndHealedByTheFix) {
  MakeOthersPrograms();
  Break();
  const Snapshot broken = TakeSnapshot();
  ExpectInspectSaysIt();
  ExpectDoctorSaysIt();
  ExpectMetricsCountIt();
  ExpectReconcileSaysIt();
  EXPECT_TRUE(Unchanged(broken, TakeSnapshot())) << "they only look";
  ExpectStopped();
  Heal();
}

INSTANTIATE_TEST_SUITE_P(Every, Damaged, ::testing::ValuesIn(Damages()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
