// Which namespace an attachment was made in, when another one has its path and its inode by now.
#include <sys/stat.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class NamespaceIdentity : public World {
 protected:
  static std::uint64_t InodeOf(const Node& node) {
    struct stat status {};
    return ::fstat(node.fd(), &status) == 0 ? status.st_ino : 0;
  }
  // As if `owner`, which is gone, had been in a namespace with the path and inode of `heir`.
  void Inherit(const Node& heir) {
    json record = ReadRecord("owner");
    record["netns_path"] = heir.path();
    record["netns"]["inode"] = InodeOf(heir);
    WriteRecord("owner", record);
  }
  // The kernel of the tests may not have cookies.
  static bool HasCookies() { return ReadRecord("owner").at("netns").at("cookie") != 0; }

  void Own() {
    owner_ = &AddContainer("owner");
    result_ = Attach(config_, As("owner", *owner_));
  }

  const json config_ =
      Publish({Port(8080, 80)}, Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}}));  // one address
  static constexpr int kNoAddress = 101;
  Node* owner_ = nullptr;
  json result_;
};

TEST_F(NamespaceIdentity, DiffersForTheNextNamespaceWithTheSamePathAndInode) {
  Own();
  KillContainer(*owner_);
  Inherit(AddContainer("heir"));

  MustRun("ADD", config_);

  EXPECT_FALSE(HasRecord("owner"));
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}}));
}

TEST_F(NamespaceIdentity, IsComparedWithTheRecordByCheck) {
  Own();
  if (HasCookies()) {
    json record = ReadRecord("owner");
    record["netns"]["cookie"] = 1;
    WriteRecord("owner", record);

    EXPECT_THAT(Check(config_, result_, As("owner", *owner_)),
                Fails(103, Msg(HasSubstr("another network namespace"))));
  }
}

// Another mount namespace, or the path is gone before the container is.
TEST_F(NamespaceIdentity, IsLiveWhileTheOwnersHostVethExists) {
  Own();
  Inherit(container());

  EXPECT_EQ(ErrorCode(RunPlugin("ADD", config_, As("late", AddContainer("late")))), kNoAddress);
}

// As Linux 5.10 has it: no cookies at all.
TEST_F(NamespaceIdentity, DependsOnTheHostVethWithoutCookies) {
  Own();
  json record = ReadRecord("owner");
  record["netns"]["cookie"] = 0;
  WriteRecord("owner", record);

  EXPECT_EQ(ErrorCode(RunPlugin("ADD", config_)), kNoAddress);
  host().Must({"ip", "link", "delete", HostVethOf(result_)});
  MustRun("ADD", config_);

  EXPECT_FALSE(HasRecord("owner"));
}

}  // namespace
}  // namespace nomad_bridge::test
