# Needs the network of ../firecracker.conflist in /opt/cni/config, tc-redirect-tap in /opt/cni/bin, and on the node firecracker, a
# kernel and a root file system. raw_exec runs in the allocation's network namespace, where the tap is.
job "microvm" {
  group "microvm" {
    network {
      mode = "cni/firecracker"
      # tc-redirect-tap reads them. The tap belongs to the user that runs firecracker.
      cni {
        args = {
          TC_REDIRECT_TAP_NAME = "tap0"
          TC_REDIRECT_TAP_UID  = "0"
          TC_REDIRECT_TAP_GID  = "0"
        }
      }
      port "http" { to = 80 }
    }
    task "firecracker" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["local/start.sh"]
      }
      # The machine gets the address and the MAC that ADD gave eth0: sourceCheck drops what has others.
      template {
        destination = "local/start.sh"
        data        = <<EOT
set -eu
address=$(ip -o -4 address show eth0 | awk '{ sub("/.*", "", $4); print $4 }')
gateway=$(ip -4 route show default | awk '{ print $3 }')
mac=$(ip -o link show eth0 | sed 's|.*link/ether \([^ ]*\).*|\1|')
cat >local/vm.json <<VM
{
  "boot-source": {
    "kernel_image_path": "/var/lib/firecracker/vmlinux",
    "boot_args": "console=ttyS0 reboot=k panic=1 ip=$address::$gateway:255.255.240.0::eth0:off"
  },
  "drives": [{
    "drive_id": "root", "path_on_host": "/var/lib/firecracker/root.ext4",
    "is_root_device": true, "is_read_only": true
  }],
  "machine-config": { "vcpu_count": 1, "mem_size_mib": 128 },
  "network-interfaces": [{ "iface_id": "eth0", "guest_mac": "$mac", "host_dev_name": "tap0" }]
}
VM
exec firecracker --no-api --config-file local/vm.json
EOT
      }
    }
  }
}
