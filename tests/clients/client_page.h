// Types a recipe for a container runtime. The runtime is Debian's; it has no registry, so its image
// is made here.
//
// Isolation  /etc is a layer over the machine's, /opt has only what the page installs, cgroups are
//            hidden.
#pragma once

#include "tests/clients/layer.h"
#include "tests/plugin/pages_world.h"

namespace nomad_bridge::test {

// Writes an image, as `docker save` does: FILE, its NAME, what it runs, and its files as a tar.
constexpr const char* kSaveImage = R"(
import hashlib, io, json, sys, tarfile
file, name, layer_file, *command = sys.argv[1:]
layer = open(layer_file, "rb").read()
config = json.dumps({
    "architecture": "amd64", "os": "linux",
    "config": {"Cmd": command, "Env": ["PATH=/bin"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}).encode()
manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
with tarfile.open(file, "w") as image:
    for path, content in [("config.json", config), ("layer.tar", layer),
                          ("manifest.json", json.dumps(manifest).encode())]:
        member = tarfile.TarInfo(path)
        member.size = len(content)
        image.addfile(member, io.BytesIO(content))
)";

class ClientPage : public TypedPage {
 protected:
  explicit ClientPage(const std::string& heading)
      : TypedPage("docs/recipes.md", heading),
        etc_(LayerOver("/etc"), "/etc"),
        cgroups_({"-t", "tmpfs", "tmpfs"}, "/sys/fs/cgroup") {
    InstallPlugin();
    Must(InShell("nomad-bridge install /opt/cni/bin"));
  }

  // An image of busybox alone, which runs `command`.
  void SaveImage(const std::string& file,
                 const std::string& name,
                 const std::vector<std::string>& command) {
    Must(InShell(
        "mkdir -p /run/image/bin /run/image/proc /run/image/sys /run/image/dev /run/image/etc\n"
        "cp /bin/busybox /run/image/bin\n"
        "ln -sf busybox /run/image/bin/ip\n"
        "tar -C /run/image -cf /run/layer.tar ."));
    std::vector<std::string> words = {"python3", "-c", kSaveImage, file, name, "/run/layer.tar"};
    words.insert(words.end(), command.begin(), command.end());
    Must(Command{.argv = words});
  }

 private:
  Mounted etc_;
  Mounted cgroups_;
};

}  // namespace nomad_bridge::test
