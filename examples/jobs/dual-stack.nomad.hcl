# Needs the network of ../dual-stack.conflist in /opt/cni/config.
job "web-dual-stack" {
  group "web" {
    network {
      mode = "cni/dual-stack"
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
