output "url" {
  description = "Where clients find the gateways: --url of tidelog, bootstrap_servers of the SDK."
  value       = "${local.is_tls ? "https" : "http"}://${coalesce(var.host_name, aws_lb.this.dns_name)}"
}

output "balancer_name" {
  description = "The load balancer's own DNS name, for an alias."
  value       = aws_lb.this.dns_name
}

output "cluster_name" {
  description = "The ECS cluster."
  value       = aws_ecs_cluster.this.name
}

output "cluster_arn" {
  description = "The ECS cluster's ARN."
  value       = aws_ecs_cluster.this.arn
}

output "service_name" {
  description = "The ECS service of the gateways."
  value       = aws_ecs_service.gateway.name
}

output "log_group_name" {
  description = "Where the gateways' logs are: one JSON object for each request that log_requests names, and for each event."
  value       = module.task.log_group_name
}

output "security_group_id" {
  description = "The gateways' security group."
  value       = module.task.security_group_id
}

output "balancer_arn_suffix" {
  description = "The load balancer as CloudWatch's metrics name it."
  value       = aws_lb.this.arn_suffix
}

output "target_group_arn_suffix" {
  description = "The target group as CloudWatch's metrics name it."
  value       = aws_lb_target_group.gateway.arn_suffix
}

output "drain" {
  description = "Seconds: of the longest poll, of the load balancer's and of the task's end."
  value = {
    longest_poll_seconds         = local.longest_poll_seconds
    deregistration_delay_seconds = local.deregistration_delay
    stop_timeout_seconds         = local.stop_timeout
    drain_seconds                = (local.drain_notice_ms + local.drain_timeout_ms) / 1000
  }
}

output "kafka_bootstrap" {
  description = "Where Kafka's clients begin (bootstrap.servers); null without kafka_port."
  value       = local.has_kafka ? "${aws_lb.kafka[0].dns_name}:${var.kafka_port}" : null
}
