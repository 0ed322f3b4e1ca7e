# Three zones, no way to the internet, HTTPS, alarms, a budget, and your own Spark jobs on a schedule. With fast_zone_id there is a
# second log for topics that can't wait: in one zone, with gateways and maintenance of its own (fast.tf).

module "storage" {
  source            = "../../modules/storage"
  bucket            = var.bucket
  fast_zone_id      = var.fast_zone_id
  kms_key_arn       = var.kms_key_arn
  access_log_bucket = var.log_bucket
}

module "access" {
  source          = "../../modules/access"
  bucket_arn      = module.storage.bucket_arn
  prefix          = module.storage.prefix
  fast_bucket_arn = module.storage.fast_bucket_arn
  kms_key_arn     = var.kms_key_arn
}

module "network" {
  source              = "../../modules/network"
  name                = var.name
  region              = var.region
  zones               = var.zones
  has_fast_bucket     = var.fast_zone_id != null
  flow_log_bucket_arn = var.log_bucket == null ? null : "arn:aws:s3:::${var.log_bucket}"
}

module "gateway" {
  source          = "../../modules/gateway"
  name            = var.name
  region          = var.region
  image           = var.gateway_image
  collector_image = var.collector_image
  repository_arns = var.repository_arns
  store_uri       = module.storage.store_uri
  store_policy    = module.access.gateway_policy
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

  host_name                  = var.host_name
  auth                       = var.auth
  cluster_key_secret_arn     = var.cluster_key_secret_arn
  bootstrap_token_secret_arn = var.bootstrap_token_secret_arn
}

module "maintenance" {
  source          = "../../modules/maintenance"
  name            = var.name
  region          = var.region
  runs_on         = var.emr_image == null ? "fargate" : "emr"
  image           = var.emr_image == null ? var.spark_image : var.emr_image
  repository_arns = var.repository_arns
  store_uri       = module.storage.store_uri
  store_policy    = module.access.maintenance_policy
  cluster_arn     = module.gateway.cluster_arn
  vpc_id          = module.network.vpc_id
  subnet_ids      = module.network.subnet_ids
  cpu             = 2048
  memory_mib      = 4096
}

module "pipeline" {
  source         = "../../modules/pipeline"
  name           = var.name
  vpc_id         = module.network.vpc_id
  subnet_ids     = module.network.subnet_ids
  store_policy   = var.jobs_append ? module.access.writer_policy : module.access.reader_policy
  scripts_bucket = var.scripts_bucket
  jobs           = var.jobs
}

module "observability" {
  source                     = "../../modules/observability"
  name                       = var.name
  region                     = var.region
  gateway_log_group_name     = module.gateway.log_group_name
  maintenance_log_group_name = module.maintenance.log_group_name
  cluster_name               = module.gateway.cluster_name
  gateway_service_name       = module.gateway.service_name
  balancer_arn_suffix        = module.gateway.balancer_arn_suffix
  target_group_arn_suffix    = module.gateway.target_group_arn_suffix
  has_collector              = var.collector_image != null
  log_requests               = var.log_requests
  emails                     = var.emails
  daily_usd_max              = var.daily_usd_max
}
