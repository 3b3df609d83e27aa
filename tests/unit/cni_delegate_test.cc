// Shell scripts, run as a foreign IPAM plugin would be.
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "plugin/cni/delegate.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/soon.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

constexpr int kForeign = 50;  // a descriptor that a runtime left open in us

class DelegatedIpam : public ::testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }  // as main() does
  void TearDown() override { std::signal(SIGPIPE, SIG_DFL); }

  [[nodiscard]] std::string Path(const std::string& name) const {
    return Cat(directory_, '/', name);
  }

  // A plugin "x" that runs this.
  void WritePlugin(const std::string& script, const std::string& path = "x") const {
    fs::create_directories(fs::path(Path(path)).parent_path());
    std::ofstream(Path(path)) << "#!/bin/sh\ncd " << directory_ << '\n' << script << '\n';
    fs::permissions(Path(path), fs::perms::owner_all);
  }

  [[nodiscard]] std::string Invoke(cni::Verb verb = cni::Verb::kAdd,
                                   const std::string& config = "{}") const {
    return InvokeIn(directory_, verb, config);
  }
  [[nodiscard]] static std::string InvokeIn(const std::string& cni_path,
                                            cni::Verb verb = cni::Verb::kAdd,
                                            const std::string& config = "{}",
                                            const std::string& type = "x") {
    return cni::InvokeIpam({.type = type, .cni_path = cni_path, .config = config}, verb, {}, "");
  }
  [[nodiscard]] std::string Run(const std::string& script) const {
    WritePlugin(script);
    return Invoke();
  }
  [[nodiscard]] Error Failure(const std::string& script, cni::Verb verb = cni::Verb::kAdd) const {
    WritePlugin(script);
    return Caught([&] { return Invoke(verb); });
  }
  [[nodiscard]] Error Overdue(cni::Verb verb, std::chrono::milliseconds timeout) const {
    return Caught([&] {
      return cni::InvokeIpam({.type = "x", .cni_path = directory_}, verb, {}, "", timeout);
    });
  }

  // What a script has written into a file; waited for.
  [[nodiscard]] std::string Written(const std::string& name) const {
    std::string text;
    EXPECT_TRUE(test::Soon([&] {
      text = FindFile(Path(name)).value_or("");
      return text.ends_with('\n');
    }));
    return text.substr(0, text.find('\n'));
  }

 private:
  const test::ScratchDirectory scratch_{fs::temp_directory_path()};
  const std::string directory_ = scratch_.path();
};

// Gone, or a zombie that its new parent has not reaped yet.
bool HasEnded(const std::string& pid) {
  const std::string stat = FindFile(Cat("/proc/", pid, "/stat")).value_or("");
  const std::size_t name_end = stat.rfind(')');
  return name_end == stat.npos || stat.at(name_end + 2) == 'Z' || stat.at(name_end + 2) == 'X';
}

void AwaitEnd(const std::string& pid) {
  EXPECT_TRUE(test::Soon([&] { return HasEnded(pid); }));
}

bool HasChildren() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

// ---- where it is found

TEST_F(DelegatedIpam, IsTheFirstRegularFileOfThatNameInCniPath) {
  fs::create_directories(Path("empty"));
  fs::create_directories(Path("directory/x"));
  WritePlugin("echo first", "first/x");
  WritePlugin("echo second", "second/x");
  std::string cni_path = ":/nowhere:";
  for (const char* const directory : {"empty", "directory", "first", "second"}) {
    cni_path += Cat(':', Path(directory));
  }

  EXPECT_EQ(InvokeIn(cni_path + ':'), "first\n");
}

TEST_F(DelegatedIpam, IsAnErrorThatListsTheDirectoriesIfMissing) {
  const Error error =
      Caught([&] { return InvokeIn("/nowhere:/opt/none", cni::Verb::kDel, "{}", "dhcpp"); });
  EXPECT_EQ(error.code(), Code::kInvalidConfig);
  EXPECT_EQ(error.msg(), "failed to find plugin \"dhcpp\" in path [/nowhere /opt/none]");
  EXPECT_THAT(error.what(), Not(HasSubstr("not found")));
}

TEST_F(DelegatedIpam, IsAnErrorIfCniPathIsEmpty) {
  for (const char* const path : {"", ":", "::"}) {
    EXPECT_THAT(Caught([&] { return InvokeIn(path, cni::Verb::kDel); }),
                IsError(Code::kInvalidEnvironment, "CNI_PATH is empty"));
  }
}

TEST_F(DelegatedIpam, HasANameAndNoPath) {
  const auto refused = [&](const std::string& type) {
    return Caught([&] { return InvokeIn("/", cni::Verb::kAdd, "{}", type); });
  };
  EXPECT_EQ(refused("").msg(), "no plugin name provided");
  EXPECT_EQ(refused("bin/true").msg(), "invalid plugin name: bin/true");
  EXPECT_EQ(refused("../x").msg(), "invalid plugin name: ../x");
  EXPECT_EQ(refused(std::string("x\0y", 3)).code(), Code::kInvalidConfig);
}

TEST_F(DelegatedIpam, IsNeverThisProgramItself) {
  fs::create_symlink(fs::read_symlink("/proc/self/exe"), Path("x"));
  EXPECT_THAT(Caught([&] { return Invoke(); }),
              IsError(Code::kInvalidConfig, "invalid 'ipam.type': 'x'", HasSubstr("this program")));
}

TEST_F(DelegatedIpam, IsNamedIfItCannotBeStarted) {
  WritePlugin("true");
  fs::permissions(Path("x"), fs::perms::owner_read);
  const Error no_right = Caught([&] { return Invoke(); });
  EXPECT_EQ(no_right.code(), Code::kIo);
  EXPECT_THAT(no_right.what(), HasSubstr(Path("x")));
  EXPECT_THAT(no_right.details(), HasSubstr("EACCES"));

  std::ofstream(Path("x")) << "neither program nor script";
  fs::permissions(Path("x"), fs::perms::owner_all);
  const Error no_program = Caught([&] { return Invoke(); });
  EXPECT_THAT(no_program.details(), HasSubstr("ENOEXEC"));
  EXPECT_FALSE(HasChildren());
}

// ---- what it gets

TEST_F(DelegatedIpam, GetsTheBytesOfOurStdinAndThenItsEnd) {
  std::string config(3'000'000, 'x');
  config += std::string("\0\r\n\xff{}", 6);
  WritePlugin("cat >got; wc -c <got");

  EXPECT_EQ(Invoke(cni::Verb::kAdd, config), Cat(config.size(), '\n'));
  EXPECT_EQ(FindFile(Path("got"), 8 << 20), config);
}

TEST_F(DelegatedIpam, GetsOurEnvironmentWithTheCommandAndTheAttachmentInIt) {
  ::setenv("CNI_COMMAND", "ADD", 1);
  ::setenv("CNI_CONTAINERID", "ours", 1);
  ::setenv("OF_THE_RUNTIME", "kept = as it is", 1);
  WritePlugin("env | grep -E '^(CNI_|OF_THE)' | sort");

  EXPECT_EQ(cni::InvokeIpam({.type = "x", .cni_path = Path(""), .args = "A=1", .config = "{}"},
                            cni::Verb::kDel,
                            {"net", "other", "eth7"},
                            ""),
            Cat("CNI_ARGS=A=1\nCNI_COMMAND=DEL\nCNI_CONTAINERID=other\nCNI_IFNAME=eth7\n",
                "CNI_NETNS=\nCNI_PATH=",
                Path(""),
                "\nOF_THE_RUNTIME=kept = as it is\n"));
}

TEST_F(DelegatedIpam, KeepsTheArgumentsOfAddWhereTheRequestHasNone) {
  const cni::DelegatedIpam recorded = {
      .type = "x", .cni_path = "/old", .args = "A=1", .config = "old"};
  cni::Request request;
  request.cni_path = "/new";
  request.config_text = "new";
  const auto shown = [&](const std::string& type) {
    const cni::DelegatedIpam used = cni::WithConfigOf(request, type, recorded);
    return Joined(std::vector{used.type, used.cni_path, used.args, used.config}, " ");
  };

  EXPECT_EQ(shown("x"), "x /new A=1 new");
  EXPECT_EQ(shown("other"), "x /old A=1 old");
  request.args = "B=2";
  EXPECT_EQ(shown("x"), "x /new B=2 new");
}

TEST_F(DelegatedIpam, GetsTheVerbsOfTheSpecification) {
  WritePlugin("printf %s $CNI_COMMAND");
  for (const cni::Verb verb :
       {cni::Verb::kAdd, cni::Verb::kDel, cni::Verb::kCheck, cni::Verb::kGc, cni::Verb::kStatus}) {
    EXPECT_EQ(Invoke(verb), cni::Text(verb));
  }
}

TEST_F(DelegatedIpam, GetsNoDescriptorOfOursNorOfTheRuntimes) {
  ASSERT_EQ(::dup2(STDIN_FILENO, kForeign), kForeign);
  const UniqueFd foreign(kForeign);
  // By way of a file: a pipe of the shell's own would be seen now and then.
  EXPECT_EQ(
      Run(Cat("ls -l /proc/$$/fd >fds; grep -E ' (", kForeign, "|[3-9]) -> ' fds || echo none")),
      "none\n");
}

TEST_F(DelegatedIpam, MayBeKilledBySigpipe) {
  const std::string ignored = Run("grep SigIgn /proc/self/status | cut -f2");
  EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1U << (SIGPIPE - 1)), 0U) << ignored;
}

TEST_F(DelegatedIpam, RunsInOurDirectory) {
  WritePlugin("");  // it would change the directory
  std::ofstream(Path("x")) << "#!/bin/sh\npwd\n";
  EXPECT_EQ(Invoke(), Cat(fs::current_path().string(), '\n'));
}

// ---- what it prints, and how long it may take

TEST_F(DelegatedIpam, MayPrintMuchOnBothStreamsAndReadNothing) {
  WritePlugin("head -c 5000000 /dev/zero >&2 & head -c 5000000 /dev/zero; wait");
  ::testing::internal::CaptureStderr();

  const std::string out = Invoke(cni::Verb::kAdd, std::string(5'000'000, ' '));

  EXPECT_EQ(out.size(), 5'000'000U);
  EXPECT_EQ(::testing::internal::GetCapturedStderr().size(), 5'000'001U);
}

TEST_F(DelegatedIpam, IsKilledWhenItPrintsTooMuch) {
  EXPECT_THAT(Failure("exec cat /dev/zero"),
              IsError(Code::kDelegate, _, HasSubstr("more than 16 MiB")));
  EXPECT_FALSE(HasChildren());
}

TEST_F(DelegatedIpam, HasItsStderrCopiedToOurs) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run("echo a lease from 10.0.0.1 >&2; printf 'no end' >&2; echo ok"), "ok\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a lease from 10.0.0.1\nno end\n");

  ::testing::internal::CaptureStderr();
  static_cast<void>(Failure("echo a reason >&2; exit 1"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a reason\n");
}

TEST_F(DelegatedIpam, IsKilledWithItsChildrenIfItDoesNotAnswer) {
  WritePlugin("sleep 1000 & echo $! >helper; echo $$ >itself; echo asking >&2; sleep 1000");

  EXPECT_THAT(Overdue(cni::Verb::kCheck, std::chrono::milliseconds(500)),
              IsError(Code::kTryAgain,
                      "IPAM plugin 'x' has not answered CHECK in 500 ms",
                      "killed; stderr: asking "));

  EXPECT_FALSE(HasChildren());
  AwaitEnd(Written("itself"));
  AwaitEnd(Written("helper"));
}

TEST_F(DelegatedIpam, IsKilledIfItClosesItsStreamsAndKeepsRunning) {
  WritePlugin("exec <&- >&- 2>&-; exec sleep 1000");
  EXPECT_THAT(Overdue(cni::Verb::kAdd, std::chrono::milliseconds(200)), IsError(Code::kTryAgain));
  EXPECT_FALSE(HasChildren());
}

TEST_F(DelegatedIpam, LeavesNoProcessBehindAndNoneIsWaitedFor) {
  EXPECT_EQ(Run("sleep 1000 & echo $! >helper; echo ok"), "ok\n");
  AwaitEnd(Written("helper"));
}

TEST_F(DelegatedIpam, MayLeaveADaemonThatHoldsItsStreams) {
  EXPECT_EQ(Run("setsid sh -c 'echo $$ >daemon; exec sleep 1000' & "
                "while [ ! -s daemon ]; do sleep 0.01; done; echo ok"),
            "ok\n");
  const std::string daemon = Written("daemon");
  EXPECT_FALSE(HasEnded(daemon)) << "what starts a session of its own is meant to stay";
  ::kill(std::stoi(daemon), SIGKILL);
}

// ---- its errors

TEST_F(DelegatedIpam, HasItsErrorPassedOnAsItIs) {
  const Error error = Failure(R"(cat <<E
{ "cniVersion": "0.4.0", "code": 117, "msg": "no lease; not found", "details": "line 1\nline 2" }
E
exit 1)",
                              cni::Verb::kDel);
  EXPECT_EQ(static_cast<int>(error.code()), 117);
  EXPECT_EQ(error.msg(), "no lease; not found");
  EXPECT_EQ(error.details(), "line 1\nline 2");
}

TEST_F(DelegatedIpam, MayLeaveDetailsOutOfItsErrorAndSpellItAsGoReadsIt) {
  EXPECT_THAT(Failure(R"(echo '{"Code": 11, "MSG": "later"}'; exit 2)"),
              IsError(Code::kTryAgain, "later", ""));
  EXPECT_EQ(static_cast<int>(Failure(R"(echo '{"msg": "none"}'; exit 1)").code()), 0);
}

TEST_F(DelegatedIpam, IsReportedWithItsOutputIfItFailsWithoutAnError) {
  EXPECT_THAT(Failure("exit 3"),
              IsError(Code::kDelegate, "IPAM plugin 'x' failed at ADD", "exit code 3"));

  const Error talking = Failure("echo panic; echo goroutine 1 >&2; exit 2", cni::Verb::kDel);
  EXPECT_EQ(talking.msg(), "IPAM plugin 'x' failed at DEL");
  EXPECT_EQ(talking.details(), "exit code 2; stdout: panic ; stderr: goroutine 1 ");

  const Error killed = Failure("kill -SEGV $$");
  EXPECT_EQ(killed.details(), "killed by signal 11 (Segmentation fault)");
}

TEST_F(DelegatedIpam, PrintsAnErrorOnlyIfItIsADocumentWithCodeOrMsg) {
  for (const char* const document : {R"({"code": -1, "msg": "m"})",
                                     R"({"code": "7", "msg": "m"})",
                                     R"({"code": 7.5, "msg": "m"})",
                                     R"({"code": 7, "msg": 5})",
                                     R"({"code": 99999999999, "msg": "m"})",
                                     R"({"ips": []})",
                                     R"({"code": 7, "msg": "m"} {})",
                                     R"([7])",
                                     R"(null)"}) {
    EXPECT_THAT(Failure(Cat("echo '", document, "'; exit 1")),
                IsError(Code::kDelegate, _, HasSubstr("exit code 1; stdout: ")))
        << document;
  }
}

}  // namespace
}  // namespace nomad_bridge
