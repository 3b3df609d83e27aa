# Needs the network of ../uplink-mtu.conflist in /opt/cni/config.
job "web-mtu" {
  group "web" {
    network {
      mode = "cni/uplink-mtu"
      port "http" { to = 80 }
    }
    service {
      provider = "nomad"
      port     = "http"
    }
    task "server" {
      driver = "docker"
      config {
        image = "nginx:stable-alpine"
        ports = ["http"]
      }
    }
  }
}
