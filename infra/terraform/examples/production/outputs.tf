output "url" {
  description = "Where clients find the gateways."
  value       = module.gateway.url
}

output "store_uri" {
  description = "The store, for Spark, tidelog verify and tidelog doctor."
  value       = module.storage.store_uri
}

output "dashboard" {
  description = "The dashboard in CloudWatch."
  value       = module.observability.dashboard_name
}

output "drain" {
  description = "Seconds: of the longest poll, of the load balancer's and of a task's end."
  value       = module.gateway.drain
}

output "fast_url" {
  description = "Where clients find the gateways of the fast log; null without one."
  value       = one(module.fast_gateway[*].url)
}

output "balancer_name" {
  description = "The load balancer's own name; host_name is an alias of it."
  value       = module.gateway.balancer_name
}

output "fast_balancer_name" {
  description = "The name of the fast log's load balancer, of which fast_host_name is an alias; null without one."
  value       = one(module.fast_gateway[*].balancer_name)
}
