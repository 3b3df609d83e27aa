# Needs the network of ../lan.conflist in /opt/cni/config.
job "web-lan" {
  group "web" {
    network {
      mode = "cni/lan"
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
