# The same policies on every node: the files come from Nomad's variables, and are applied when they
# change. Needs the driver raw_exec, as it changes the node. docs/policy.md
job "network-policy" {
  type = "system"

  group "apply" {
    task "apply" {
      driver = "raw_exec"

      template {
        destination = "/etc/nomad-bridge/policy.d/cluster.json"
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/network-policy" }}{{ .policies }}{{ end }}
        EOT
        change_mode = "script"
        change_script {
          command       = "/usr/sbin/nomad-bridge"
          args          = ["policy", "apply"]
          fail_on_error = false
        }
      }

      # Applies at the start, and stays for the next change.
      config {
        command = "/bin/sh"
        args    = ["-c", "/usr/sbin/nomad-bridge policy apply; exec sleep infinity"]
      }
    }
  }
}
