# What a Nomad client needs. Both directories are the defaults; the second only where there are
# other plugins, too.
client {
  enabled        = true
  cni_path       = "/opt/cni/bin"
  cni_config_dir = "/opt/cni/config"
}
