# The log in the directory bucket. Its gateways are in all zones, since a load balancer needs two; those in the bucket's own zone are
# the fast ones. Alarms and dashboard watch only the other log: a second module observability would watch this one.

module "fast_gateway" {
  count           = var.fast_zone_id == null ? 0 : 1
  source          = "../../modules/gateway"
  name            = "${var.name}-fast"
  region          = var.region
  image           = var.gateway_image
  repository_arns = var.repository_arns
  store_uri       = module.storage.fast_store_uri
  store_policy    = module.access.fast_policy
  vpc_id          = module.network.vpc_id
  subnet_ids      = module.network.subnet_ids
  client_cidrs    = concat([module.network.cidr], var.client_cidrs)
  certificate_arn = var.certificate_arn
  # The load balancer's logs go to the same bucket as the store's and the network's.
  access_log_bucket = var.log_bucket
  is_protected      = true
  count_min         = length(var.zones)
  count_max         = var.count_max
  log_requests      = var.log_requests

  host_name                  = var.fast_host_name
  auth                       = var.auth
  cluster_key_secret_arn     = var.cluster_key_secret_arn
  bootstrap_token_secret_arn = var.bootstrap_token_secret_arn
}

module "fast_maintenance" {
  count           = var.fast_zone_id == null ? 0 : 1
  source          = "../../modules/maintenance"
  name            = "${var.name}-fast"
  region          = var.region
  image           = var.spark_image
  repository_arns = var.repository_arns
  store_uri       = module.storage.fast_store_uri
  store_policy    = module.access.fast_policy
  cluster_arn     = module.fast_gateway[0].cluster_arn
  vpc_id          = module.network.vpc_id
  subnet_ids      = module.network.subnet_ids
}
