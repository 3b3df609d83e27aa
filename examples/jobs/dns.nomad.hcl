# Needs the network of ../dns.conflist in /opt/cni/config.
job "web-dns" {
  group "web" {
    network {
      mode = "cni/dns"
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
