# Needs the network of ../tuning.conflist in /opt/cni/config.
job "web-tuned" {
  group "web" {
    network {
      mode = "cni/tuning"
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
