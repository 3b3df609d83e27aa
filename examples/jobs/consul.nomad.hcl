# Needs the network of ../consul.conflist in /opt/cni/config, and consul-cni beside nomad-bridge in /opt/cni/bin.
job "web-consul" {
  group "web" {
    network {
      mode = "cni/consul"
    }
    service {
      name = "web"
      port = "80"
      connect {
        sidecar_service {
          proxy {
            transparent_proxy {}
          }
        }
      }
    }
    task "server" {
      driver = "docker"
      config {
        image = "nginx:stable-alpine"
      }
    }
  }
}
