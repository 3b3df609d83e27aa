# Needs the network of ../ipv6-only.conflist in /opt/cni/config.
job "web-ipv6" {
  group "web" {
    network {
      mode = "cni/ipv6-only"
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
