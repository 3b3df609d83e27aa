# Needs the network of ../own-ipam.conflist in /opt/cni/config, and ../ipam/own-ipam in /opt/cni/bin.
job "web-own-ipam" {
  group "web" {
    network {
      mode = "cni/own-ipam"
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
