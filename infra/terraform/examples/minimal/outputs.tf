output "url" {
  description = "Where clients find the gateways."
  value       = module.gateway.url
}

output "store_uri" {
  description = "The store, for Spark, tidelog verify and tidelog doctor."
  value       = module.storage.store_uri
}
