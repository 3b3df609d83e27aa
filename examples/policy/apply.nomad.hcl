# The same policies on every node: the files come from Nomad's variables, and are applied when they
# change. Needs the driver raw_exec, as it changes the node. docs/policy.md
job "network-policy" {
  type = "system"

  group "apply" {
    task "apply" {
      driver = "raw_exec"

      # A mistake is refused before it is in the node's own directory, which is applied at boot.
      template {
        destination = "local/apply"
        perms       = "755"
        data        = <<-EOT
          #!/bin/sh
          set -e
          PATH=$PATH:/opt/cni/bin
          nomad-bridge policy check "$NOMAD_TASK_DIR/policy.d"
          install -D -m 644 -t /etc/nomad-bridge/policy.d "$NOMAD_TASK_DIR/policy.d/cluster.json"
          nomad-bridge policy apply
        EOT
      }

      template {
        destination = "local/policy.d/cluster.json"
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/network-policy" }}{{ .policies }}{{ end }}
        EOT
        change_mode = "script"
        change_script {
          command       = "/bin/sh"
          args          = ["-c", "exec \"$NOMAD_TASK_DIR/apply\""]
          fail_on_error = false
        }
      }

      # Applies at the start, and stays for the next change.
      config {
        command = "/bin/sh"
        args    = ["-c", "\"$NOMAD_TASK_DIR/apply\"; exec sleep infinity"]
      }
    }
  }
}
