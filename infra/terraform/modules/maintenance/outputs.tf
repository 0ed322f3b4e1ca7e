output "log_group_name" {
  description = "What maintenance did: one JSON object for each step."
  value       = module.task.log_group_name
}

output "service_name" {
  description = "The ECS service of maintenance; null on EMR."
  value       = one(aws_ecs_service.maintenance[*].name)
}

output "application_id" {
  description = "The EMR Serverless application of maintenance; null on Fargate."
  value       = one(module.emr[*].application_id)
}
