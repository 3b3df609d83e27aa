# A second interface, eth1, beside eth0 of ../nomad.conflist. For drivers whose namespace is Nomad's own (exec, java, raw_exec);
# the plugin itself is called before the task starts. Without a DEL the address is taken back when the namespace is gone.
job "web-second" {
  group "web" {
    network {
      mode = "cni/nomad"
      port "http" { to = 80 }
    }
    task "eth1" {
      lifecycle {
        hook = "prestart"
      }
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-euc", <<EOT
export CNI_COMMAND=ADD CNI_CONTAINERID=$NOMAD_ALLOC_ID CNI_NETNS=/var/run/netns/$NOMAD_ALLOC_ID CNI_IFNAME=eth1
export CNI_PATH=/opt/cni/bin CNI_ARGS="IgnoreUnknown=1;NOMAD_JOB_ID=$NOMAD_JOB_ID;NOMAD_ALLOC_ID=$NOMAD_ALLOC_ID"
exec /opt/cni/bin/nomad-bridge <local/second.json
EOT
        ]
      }
      template {
        destination = "local/second.json"
        data        = <<EOT
{ "cniVersion": "1.0.0", "name": "second", "type": "nomad-bridge", "bridge": "nomad-second", "isDefaultGateway": false,
  "ipam": { "ranges": [[{ "subnet": "172.26.224.0/20" }]] } }
EOT
      }
    }
    task "server" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-m", "http.server", "80"]
      }
    }
  }
}
