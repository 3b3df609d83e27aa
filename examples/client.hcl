# What a Nomad client needs: both folders are the defaults, and the second only where there are other plugins, too.
client {
  enabled        = true
  cni_path       = "/opt/cni/bin"
  cni_config_dir = "/opt/cni/config"
}
