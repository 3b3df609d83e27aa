# Needs the network of ../nomad.conflist in /opt/cni/config.
job "web" {
  group "web" {
    network {
      mode = "cni/nomad"
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
