# nomad namespace apply namespace.hcl: jobs of this namespace get the network "prod" and no other; the server refuses the rest.
name        = "prod"
description = "its network is cni/prod: prod.conflist"
capabilities {
  enabled_network_modes = ["cni/prod"]
}
