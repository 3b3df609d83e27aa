// Whose it is: labels from CNI_ARGS and the config, in the link's alias, the elements' comments,
// the record and errors.

#include "tests/plugin/labels_world.h"

namespace nomad_bridge::test {
namespace {

class Labels : public LabelsWorld {};

TEST_F(Labels, NomadLabelsAreInTheAliasTheCommentsAndTheRecord) {
  Attach(Web(), As("0c1d", container(), kNomadArgs));
  EXPECT_EQ(Alias(),
            "nomad-bridge net=nomad id=0c1d if=eth0 job=billing group=api ns=prod alloc=5f3c1a2b "
            "region=global");
  for (const std::string set : {"alloc4", "alloc6", "masq4", "snat6", "port4", "port6"}) {
    EXPECT_EQ(Comment(set),
              HostVeth() +
                  " id=0c1d job=billing group=api ns=prod alloc=5f3c1a2b region=global "
                  "net=nomad")
        << set;
  }
  EXPECT_EQ(RecordedLabel("NOMAD_JOB_ID"), "billing");
  EXPECT_EQ(RecordedLabel("NOMAD_GROUP_NAME"), "api");
  EXPECT_EQ(RecordedLabel("NOMAD_NAMESPACE"), "prod");
  EXPECT_EQ(RecordedLabel("NOMAD_ALLOC_ID"), "5f3c1a2b");
  EXPECT_EQ(RecordedLabel("NOMAD_REGION"), "global");
}

TEST_F(Labels, NameTheAllocationOnceWhereItIsTheContainer) {
  Attach(Web(), As("5f3c1a2b", container(), kNomadArgs));
  EXPECT_EQ(Comment("alloc4"),
            HostVeth() + " alloc=5f3c1a2b job=billing group=api ns=prod region=global net=nomad");
}

TEST_F(Labels, KubernetesLabelsAreKnownToo) {
  Attach(Web(), As("web", container(), "K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop"));
  EXPECT_THAT(Alias(), EndsWith("if=eth0 pod=web-0 podns=shop"));
  EXPECT_THAT(Comment("alloc4"), HasSubstr(" pod=web-0 podns=shop "));
}

TEST_F(Labels, UnknownKeysAreStoredWhereOnlyRootReads) {
  const std::string secret = "s3cr3t";
  Attach(Web(),
         As("web", container(), Cat("NOMAD_JOB_ID=billing;IgnoreUnknown=1;CONSUL_TOKEN=", secret)));
  EXPECT_EQ(Alias(), "nomad-bridge net=nomad id=web if=eth0 job=billing");
  EXPECT_THAT(host().Must({"ip", "-d", "link"}), Not(HasSubstr(secret)));
  EXPECT_THAT(host().Must({"nft", "list", "ruleset"}), Not(HasSubstr(secret)));
  EXPECT_EQ(RecordedLabel("CONSUL_TOKEN"), secret);
  const std::vector<std::string> files =
      Lines(host().Must({"grep", "-rl", "--exclude-dir=netns", secret, "/run"}));
  EXPECT_THAT(files, ElementsAre(RecordOf("web")));
  EXPECT_EQ(host().Must({"stat", "-c", "%a %U", files.front()}), "600 root\n");
}

TEST_F(Labels, UnknownKeysAreAnErrorWithoutIgnoreUnknown) {
  EXPECT_THAT(MustRefuse(4, Web(), As("web", container(), "team=payments;NOMAD_JOB_ID=billing")),
              Msg(AllOf(HasSubstr("team=payments"), Not(HasSubstr("NOMAD_JOB_ID")))));
}

TEST_F(Labels, KeepEverythingBehindTheFirstEqualsSign) {
  Attach(Web(), As("web", container(), "NOMAD_JOB_ID=a=b==c;NOMAD_GROUP_NAME=="));
  EXPECT_EQ(RecordedLabel("NOMAD_JOB_ID"), "a=b==c");
  EXPECT_EQ(RecordedLabel("NOMAD_GROUP_NAME"), "=");
  EXPECT_THAT(Alias(), EndsWith("job=a=b==c group=="));
}

struct Forged : Named {
  std::string args;
  std::string key;
};

class ForgedLabel : public LabelsWorld, public ::testing::WithParamInterface<Forged> {};

// A job's author writes CNI_ARGS, too, and Nomad replaces only keys of its own spelling.
TEST_P(ForgedLabel, IsRefusedByName) {
  EXPECT_THAT(MustRefuse(4, Web(), As("web", container(), GetParam().args)),
              Msg(Cat("CNI_ARGS has the key '", GetParam().key, "'")));
}

// It may have been there before the upgrade.
TEST_P(ForgedLabel, FailsNoCheckAndNoDel) {
  const json added = Attach(Web(), As("web", container()));
  MustCheck(Web(), added, As("web", container(), GetParam().args));
  Detach(Web(), As("web", container(), GetParam().args));
}

INSTANTIATE_TEST_SUITE_P(
    CniArgs,
    ForgedLabel,
    ::testing::Values(
        Forged{"DoubledInAnotherCase",
               "IgnoreUnknown=true;NOMAD_NAMESPACE=dev;nomad_namespace=prod",
               "nomad_namespace"},
        Forged{"OtherCaseFirst", "IgnoreUnknown=1;Nomad_Job_ID=a;NOMAD_JOB_ID=b", "Nomad_Job_ID"},
        Forged{"Doubled", "NOMAD_JOB_ID=billing;NOMAD_JOB_ID=billing", "NOMAD_JOB_ID"},
        Forged{"OddlySpelled", "IgnoreUnknown=1;NOMAD_job_ID=a", "NOMAD_job_ID"},
        Forged{"OfKubernetes",
               "IgnoreUnknown=1;k8s_pod_namespace=kube-system",
               "k8s_pod_namespace"},
        Forged{"OfKubernetesDoubled", "K8S_POD_NAME=a;K8S_POD_NAME=b", "K8S_POD_NAME"}),
    kNameOf);

class Requests : public LabelsWorld {
 protected:
  [[nodiscard]] static json With(const std::string& requests) {
    return Config({{"requests", requests}});
  }
  static constexpr const char* kAddress = "IP=172.26.64.77";
  static constexpr const char* kMac = "MAC=02:11:11:11:11:11";
};

TEST_F(Requests, AreRefusedFromJobsIfTheOperatorSaysSo) {
  EXPECT_EQ(Msg(MustRefuse(4, With("refuse"), As("web", container(), kAddress))),
            Cat("CNI_ARGS has ", kAddress));
  EXPECT_THAT(MustRefuse(4, With("refuse"), As("web", container(), kMac)),
              AllOf(Msg(Cat("CNI_ARGS has ", kMac)), Details(HasSubstr("'requests'"))));
}

TEST_F(Requests, AreStillAcceptedFromTheRuntime) {
  json config = With("refuse");
  config["runtimeConfig"] = {{"ips", {"172.26.64.77"}}, {"mac", "02:11:11:11:11:11"}};
  EXPECT_EQ(AddressOf(Attach(config, As("web", container(), "NOMAD_JOB_ID=a"))), "172.26.64.77");
}

TEST_F(Requests, AreAllowedByDefault) {
  EXPECT_EQ(AddressOf(Attach(Config(), As("web", container(), kAddress))), "172.26.64.77");
  Detach(Config(), As("web", container()));
  EXPECT_EQ(AddressOf(Attach(With("allow"), As("web", container(), kAddress))), "172.26.64.77");
}

TEST_F(Requests, AreToleratedInRunningAllocations) {
  const Variables web = As("web", container(), kAddress);
  const json added = Attach(Config(), web);
  MustCheck(With("refuse"), added, web);
  Detach(With("refuse"), web);
}

TEST_F(Requests, SettingRefusesOtherValues) {
  EXPECT_EQ(Msg(MustRefuse(7, With("deny"), As("web", container()))),
            "invalid 'requests': \"deny\"");
}

TEST_F(Labels, MayBeEmpty) {
  Attach(Web(), As("web", container(), "NOMAD_JOB_ID=;NOMAD_GROUP_NAME=api"));
  EXPECT_EQ(Alias(), "nomad-bridge net=nomad id=web if=eth0 group=api");
}

TEST_F(Labels, MayBeAbsent) {
  Attach(Web(), As("web", container()));
  EXPECT_EQ(Alias(), "nomad-bridge net=nomad id=web if=eth0");
  EXPECT_EQ(Comment("port4"), HostVeth() + " id=web net=nomad");
}

TEST_F(Labels, ConventionLabelsOverrideCniArgs) {
  json config = Web();
  config["args"]["cni"]["labels"] = {{{"key", "team"}, {"value", "payments"}},
                                     {{"key", "NOMAD_JOB_ID"}, {"value", "ledger"}}};
  Attach(config, As("web", container(), "NOMAD_JOB_ID=billing"));
  EXPECT_THAT(Alias(), EndsWith("if=eth0 job=ledger"));
  EXPECT_EQ(RecordedLabel("team"), "payments");
}

// ---- in errors about somebody else

class Owner : public LabelsWorld {
 protected:
  [[nodiscard]] Outcome Intrude(const json& config) {
    return RunPlugin("ADD", config, As("intruder", AddContainer("intruder")));
  }
};

TEST_F(Owner, IsNamedByJobGroupAndAllocationForATakenPort) {
  Attach(Web(), As("0c1d", container(), kNomadArgs));
  EXPECT_THAT(
      Intrude(Publish({Port(8080, 9090)}, DualStack())),
      Exits(1,
            Msg("host port tcp 8080 is taken by job 'billing', group 'api', allocation '5f3c1a2b'"),
            Details(AllOf(HasSubstr("container '0c1d'"), HasSubstr("172.26.64.2")))));
}

TEST_F(Owner, IsNamedForATakenPortOfOneHostAddressToo) {
  const json config = Publish({Port(8053, 53, "udp", kHostIp6)}, DualStack());
  Attach(config, As("0c1d", container(), kNomadArgs));
  EXPECT_EQ(Intrude(config).json.value("msg", ""),
            "host port udp [2001:db8:100::1]:8053 is taken by job 'billing', group 'api', "
            "allocation '5f3c1a2b'");
}

TEST_F(Owner, IsNamedByItsContainerWithoutLabels) {
  Attach(Web(), As("0c1d", container()));
  EXPECT_EQ(Intrude(Web()).json.value("msg", ""),
            "host port tcp 8080 is taken by container '0c1d'");
}

TEST_F(Owner, IsNamedInOneJsonDocumentDespiteHostileLabels) {
  Attach(Web(),
         As("0c1d",
            container(),
            Cat("NOMAD_JOB_ID=\"}\n{\\\xff\x1b[31m;NOMAD_GROUP_NAME=", std::string(4096, 'x'))));
  const Outcome add = Intrude(Web());
  EXPECT_EQ(add.exit_code, 1);
  ASSERT_FALSE(add.json.is_null()) << add;
  EXPECT_THAT(Msg(add), StartsWith("host port tcp 8080 is taken by job ''} {'? [31m', group 'xxx"));
  EXPECT_LT(Msg(add).size(), 400U);
}

}  // namespace
}  // namespace nomad_bridge::test
