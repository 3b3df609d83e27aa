#include "plugin/cni/labels.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

TEST(DescribeLabels, ShowsOnlyWellKnownLabelsUnderShortNames) {
  const cni::Labels labels = {{"team", "blue"},
                              {"K8S_POD_NAMESPACE", "default"},
                              {"NOMAD_REGION", "eu"},
                              {"NOMAD_ALLOC_ID", "5f3c"},
                              {"K8S_POD_NAME", "web-0"},
                              {"nomad_namespace", "prod"},
                              {"NOMAD_GROUP_NAME", "api"},
                              {"NOMAD_JOB_ID", "billing"},
                              {"NOMAD_X", "y"}};
  EXPECT_EQ(cni::Describe(labels),
            "job=billing group=api ns=prod alloc=5f3c region=eu pod=web-0 podns=default");
}

TEST(DescribeLabels, IsEmptyWithoutValues) {
  EXPECT_EQ(cni::Describe({}), "");
  EXPECT_EQ(cni::Describe({{"NOMAD_JOB_ID", ""}, {"team", ""}}), "");
}

TEST(DescribeLabels, IsOneLineOfUtf8WhateverTheValues) {
  for (int byte = 1; byte < 256; ++byte) {
    const std::string hostile = Cat("a", static_cast<char>(byte), "b");
    const std::string text = cni::Describe({{"NOMAD_JOB_ID", hostile}});
    EXPECT_TRUE(IsUtf8(text)) << byte;
    EXPECT_EQ(text, Printable(text)) << byte;
  }
}

TEST(NameOwner, NamesJobGroupAndAllocation) {
  const cni::Labels labels = {
      {"NOMAD_ALLOC_ID", "5f3c"}, {"NOMAD_JOB_ID", "billing"}, {"NOMAD_GROUP_NAME", "api"}};
  EXPECT_EQ(cni::NameOwner(labels, "id"), "job 'billing', group 'api', allocation '5f3c'");
  EXPECT_EQ(cni::NameOwner({{"K8S_POD_NAME", "web"}}, "id"), "pod 'web'");
}

TEST(RuntimeFix, NamesNomadOnlyForItsAllocations) {
  const cni::ShortLabels nomads = {{"job", "billing"}};
  constexpr const char* kAllocation = "5f3c1a2b-0000-4000-8000-000000000001";
  EXPECT_EQ(cni::RuntimeFix("stop", "id", nomads).Line(), "fix: nomad alloc stop id");
  EXPECT_EQ(cni::RuntimeFix("stop", kAllocation, {}).command,
            Cat("nomad alloc stop ", kAllocation));
  EXPECT_EQ(cni::RuntimeFix("stop", std::string(64, 'a'), {{"pod", "web"}}).command, "");
  EXPECT_THAT(cni::RuntimeFix("restart", "web", {}).Line(),
              "advice: restart container 'web' by the program that runs it");
}

TEST(NameOwner, FallsBackToTheContainer) {
  EXPECT_EQ(cni::NameOwner({}, "5f3c"), "container '5f3c'");
  EXPECT_EQ(cni::NameOwner({{"NOMAD_JOB_ID", ""}, {"team", "blue"}}, "5f3c"), "container '5f3c'");
}

TEST(NameOwner, QuotesAHostileValueShortAndSafe) {
  const std::string text =
      cni::NameOwner({{"NOMAD_JOB_ID", std::string(4096, '\n') + "\xff"}}, "id");
  EXPECT_LT(text.size(), 100U);
  EXPECT_EQ(text, Printable(text));
}

TEST(ParentJob, IsTheParentOfAPeriodicOrDispatchedJob) {
  for (const auto& [job, parent] : std::map<std::string, std::string>{
           {"batch/dispatch-1700000000-8f2a7c1d", "batch"},
           {"batch/dispatch-nightly-1700000000-8f2a7c1d", "batch"},
           {"team/batch/periodic-1700000000", "team/batch"},
           {"batch/dispatch-1700000000-8f2a7c1d/periodic-1700000000", "batch"},
           {"batch", "batch"},
           {"team/batch", "team/batch"},
           {"periodic-1700000000", "periodic-1700000000"},
           {"", ""}}) {
    EXPECT_EQ(cni::ParentJob(job), parent);
  }
}

TEST(LastOfEach, KeepsOrderAndTheLastOfEveryKey) {
  const cni::Labels labels = {{"a", "1"}, {"b", "2"}, {"A", "3"}, {"c", "4"}};
  EXPECT_EQ(cni::LastOfEach(labels), (cni::Labels{{"b", "2"}, {"A", "3"}, {"c", "4"}}));
}

TEST(DescribeLabels, IsReadBack) {
  const cni::Labels labels = {{"NOMAD_JOB_ID", "a job= of words"},
                              {"NOMAD_GROUP_NAME", "x=y"},
                              {"NOMAD_ALLOC_ID", "5f3c"},
                              {"team", "blue"}};
  const cni::ShortLabels expected = {
      {"job", "a job= of words"}, {"group", "x=y"}, {"alloc", "5f3c"}};
  EXPECT_EQ(cni::Shorten(labels), expected);
  EXPECT_EQ(cni::ParseDescribed(cni::DescribeInWords(labels)), expected);
  EXPECT_EQ(cni::ParseDescribed(""), cni::ShortLabels());
}

// A job may have any name.
TEST(DescribeLabels, InWordsCannotForgeALabel) {
  const cni::Labels labels = {{"NOMAD_JOB_ID", "x ns=prod"},
                              {"NOMAD_GROUP_NAME", "100% %20 ns=prod"}};
  EXPECT_EQ(cni::DescribeInWords(labels), "job=x%20ns=prod group=100%25%20%2520%20ns=prod");
  EXPECT_EQ(cni::ParseDescribed(cni::DescribeInWords(labels)), cni::Shorten(labels));
  EXPECT_EQ(cni::ParseDescribed("job=cut%2"), (cni::ShortLabels{{"job", "cut%2"}}));
}

}  // namespace
}  // namespace nomad_bridge
