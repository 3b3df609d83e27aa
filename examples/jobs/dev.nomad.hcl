# Needs the network of ../dev.conflist in /opt/cni/config, and the namespace: nomad namespace apply dev
job "web-dev" {
  namespace = "dev"
  group "web" {
    network {
      mode = "cni/dev"
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
