# The smallest useful installation: a bucket, one gateway and maintenance, in a network without NAT and without interface
# endpoints. Only the load balancer takes connections from outside; tasks have public addresses to get their images.

module "storage" {
  source        = "../../modules/storage"
  bucket        = var.bucket
  force_destroy = var.force_destroy
}

module "access" {
  source     = "../../modules/access"
  bucket_arn = module.storage.bucket_arn
  prefix     = module.storage.prefix
}

module "network" {
  source     = "../../modules/network"
  name       = var.name
  region     = var.region
  zones      = var.zones
  is_private = false
}

module "gateway" {
  source           = "../../modules/gateway"
  name             = var.name
  region           = var.region
  image            = var.gateway_image
  repository_arns  = var.repository_arns
  store_uri        = module.storage.store_uri
  store_policy     = module.access.gateway_policy
  vpc_id           = module.network.vpc_id
  subnet_ids       = module.network.subnet_ids
  assign_public_ip = true
  is_internal      = var.is_internal
  client_cidrs     = var.client_cidrs
  count_min        = 1
  count_max        = 2

  certificate_arn            = var.certificate_arn
  host_name                  = var.host_name
  auth                       = var.auth
  cluster_key_secret_arn     = var.cluster_key_secret_arn
  bootstrap_token_secret_arn = var.bootstrap_token_secret_arn
}

module "maintenance" {
  source           = "../../modules/maintenance"
  name             = var.name
  region           = var.region
  image            = var.spark_image
  repository_arns  = var.repository_arns
  store_uri        = module.storage.store_uri
  store_policy     = module.access.maintenance_policy
  cluster_arn      = module.gateway.cluster_arn
  vpc_id           = module.network.vpc_id
  subnet_ids       = module.network.subnet_ids
  assign_public_ip = true
}
