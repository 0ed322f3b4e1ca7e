output "log_group_name" {
  description = "What maintenance did: one JSON object for each step."
  value       = aws_cloudwatch_log_group.maintenance.name
}

output "service_name" {
  description = "The ECS service of maintenance."
  value       = aws_ecs_service.maintenance.name
}
