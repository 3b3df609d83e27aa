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
                 ports_.dump()});
  }

  [[nodiscard]] std::string Says() const { return Filled(GetParam().says); }

  void ExpectInspectSaysIt() {
    const Outcome inspect = Inspect();
    said_ = CausesIn(inspect);
    if (GetParam().station.empty()) {
      EXPECT_EQ(said_, json::array());
      return;
    }
    EXPECT_EQ(inspect.exit_code, 1) << inspect;
    EXPECT_THAT(At(said_, "/0/what").get<std::string>(), HasSubstr(Says()));
    const bool ends = GetParam().station != "-";
    EXPECT_EQ(FailedStation(DiagnosisIn(inspect)), ends ? GetParam().station : "") << inspect;
    EXPECT_TRUE(!ends || !DiagnosisIn(inspect).at("cause").is_null()) << inspect;
  }

  void ExpectDoctorSaysIt() {
    const std::vector<json> found = Examine();
    ASSERT_EQ(found.size(), GetParam().checks.size()) << json(found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Damage::Check& check = GetParam().checks[i];
      EXPECT_EQ(found[i].at("check"), check.id);
      EXPECT_EQ(found[i].at("verdict"), check.verdict);
      EXPECT_THAT(found[i].at("what").get<std::string>(),
                  HasSubstr(check.what.empty() ? Says() : Filled(check.what)));
    }
    if (said_.empty()) {
      said_ = found;
    }
  }

  void ExpectMetricsCountIt() {
    const Outcome metrics = Run({"metrics"}, {{"CNI_PATH", std::nullopt}});
    for (const Damage::Check& check : GetParam().checks) {
      if (check.id != "ports.probe") {  // metrics send nothing
        EXPECT_THAT(metrics.out,
                    ::testing::ContainsRegex(Format(
                        "\\{check=\"{}\",verdict=\"{}\"\\} [1-9]", check.id, check.verdict)));
      }
    }
  }

  void ExpectReconcileSaysIt() {
    const bool is_found = !GetParam().reconcile.empty();
    const Outcome outcome = RunLine("reconcile -dry-run");
    EXPECT_THAT(outcome, Exits(is_found ? 1 : 0, Out(HasSubstr(is_found ? Says() : "nothing"))));
    EXPECT_EQ(outcome.out.find("cannot be repaired") != std::string::npos,
              GetParam().reconcile == "names");
    json no_repair = ports_;
    no_repair["repairOnCheck"] = false;
    const Outcome check = Check(no_repair, result_);
    EXPECT_THAT(check, Exits(GetParam().is_refused ? 1 : 0));
    if (GetParam().reconcile == "repairs") {
      EXPECT_THAT(check, Fails(103, Details(HasSubstr(Says()))));
    }
  }

  void Heal() {
    EXPECT_THAT(At(said_, Cat("/0/", GetParam().remedy)).get<std::string>(),
                HasSubstr(Filled(GetParam().fix)));
    if (GetParam().remedy == "fix") {
      const std::string kept = Kept();
      PasteFixes(said_);
      EXPECT_EQ(Kept(), kept);
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
