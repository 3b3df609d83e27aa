# Needs the network of ../bandwidth.conflist in /opt/cni/config.
job "web-limited" {
  group "web" {
    network {
      mode = "cni/bandwidth"
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
