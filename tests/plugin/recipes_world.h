// Runs the lists of examples/ as Nomad does. One CNI_PATH has our plugins, the reference plugins,
// stand-ins for consul-cni and tc-redirect-tap, and the IPAM plugin of examples/.
#pragma once

#include "tests/support/tc_redirect_tap.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {

// Writes down what it gets as /run/consul-cni.<verb> and hands prevResult on, as consul-cni does.
constexpr const char* kConsulCni = R"(#!/usr/bin/python3
import json, os, subprocess, sys
config = json.load(sys.stdin)
verb = os.environ["CNI_COMMAND"]
links = subprocess.run(["nsenter", "--net=" + os.environ["CNI_NETNS"], "ip", "-j", "address", "show", "eth0"],
                       capture_output=True, text=True).stdout
with open("/run/consul-cni." + verb, "w") as file:
    json.dump({"config": config, "environment": dict(os.environ), "links": json.loads(links or "[]")}, file)
if verb == "ADD":
    json.dump(config["prevResult"], sys.stdout)
)";

class Recipe : public World {
 protected:
  Recipe() {
    EnsureDirectory("/run/others");
    WriteProgram("/run/others/consul-cni", kConsulCni);
    WriteProgram("/run/others/tc-redirect-tap", kTcRedirectTap);
    WriteProgram("/run/others/own-ipam", ReadFixture("../examples/ipam/own-ipam"));
    EnsureDirectory("/run/systemd");
    EnsureDirectory("/run/systemd/resolve");
    std::ofstream("/run/systemd/resolve/resolv.conf") << "nameserver 192.0.2.53\nsearch example\n";
  }

  static Network Run(const std::string& example) {
    return {.list = Example(example),
            .path = Cat(OurDirectory(), ":/run/others:", kReferenceDirectory)};
  }
  // As Nomad attaches an allocation of `job`, with these ports.
  static Attached Allocation(const std::string& job,
                             const Node& node,
                             const std::vector<json>& ports = {},
                             const std::string& args = "") {
    return WithPorts(job, node, ports, Cat("IgnoreUnknown=true;", args, NomadArgs(job, job)));
  }
};

}  // namespace nomad_bridge::test
