# Needs the network of ../static.conflist in /opt/cni/config.
job "web-static" {
  group "web" {
    network {
      mode = "cni/static"
      # The address is asked for in CNI_ARGS; a network with "requests": "refuse" does not give it.
      cni {
        args = { IP = "172.26.176.10" }
      }
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
