output "url" {
  description = "Where clients find the gateways."
  value       = module.gateway.url
}

output "store_uri" {
  description = "The store, for Spark, tidelog verify and tidelog doctor."
  value       = module.storage.store_uri
}

output "balancer_name" {
  description = "The load balancer's own name; host_name is an alias of it."
  value       = module.gateway.balancer_name
}
