# Installs a release on every Linux client: "nomad job run install.nomad.hcl": the program, its units, which it starts, and a
# network. Needs the driver raw_exec, and systemd. With a higher version it is an upgrade, which no allocation notices. The client's
# fingerprint finds a new plugin when the agent starts again or gets a SIGHUP. Not for clients that have the package.
variable "version" { default = "2.0.0" }
variable "base" { default = "https://releases.example.com/nomad-bridge" }

job "nomad-bridge" {
  type = "sysbatch"
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  group "install" {
    task "install" {
      driver = "raw_exec"
      artifact {
        source      = "${var.base}/v${var.version}/nomad-bridge-linux-${attr.cpu.arch}-v${var.version}.tgz"
        destination = "local/"
        options {
          checksum = "file:${var.base}/v${var.version}/nomad-bridge-linux-${attr.cpu.arch}-v${var.version}.tgz.sha256"
        }
      }
      template {
        destination = "local/nomad.conflist"
        data        = <<EOT
{ "cniVersion": "1.0.0", "name": "nomad",
  "plugins": [{ "type": "nomad-bridge", "capabilities": { "portMappings": true } }] }
EOT
      }
      config {
        command = "/bin/sh"
        args = ["-euc", <<EOT
mkdir -p /opt/cni/config
local/nomad-bridge install -only /opt/cni/bin
cp -R local/share/nomad-bridge/etc/. /etc
# /usr is read-only on Flatcar.
ln -sf /opt/cni/bin/nomad-bridge /usr/sbin/nomad-bridge || {
  mkdir -p /opt/bin
  ln -sf /opt/cni/bin/nomad-bridge /opt/bin/nomad-bridge
}
install -m 644 local/nomad.conflist /opt/cni/config/nomad.conflist
systemctl enable --now nomad-bridge
/opt/cni/bin/nomad-bridge
EOT
        ]
      }
    }
  }
}
