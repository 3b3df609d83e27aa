# Needs the network of ../prod.conflist in /opt/cni/config, and the namespace: nomad namespace apply ../namespace.hcl
job "web-prod" {
  namespace = "prod"
  group "web" {
    network {
      mode = "cni/prod"
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
