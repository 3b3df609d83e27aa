# Tries the network of every Linux client: "nomad job run test.nomad.hcl", after an install, an upgrade or a change. The allocation
# of a client fails if a check does; its log says which, and why. Needs the driver raw_exec, and root.
variable "network" { default = "nomad" }

job "nomad-bridge-test" {
  type = "sysbatch"
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  group "test" {
    reschedule {
      attempts = 0
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "test" {
      driver = "raw_exec"
      config {
        command = "/opt/cni/bin/nomad-bridge"
        args    = ["test", var.network]
      }
    }
  }
}
