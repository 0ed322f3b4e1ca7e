output "alarms_topic_arn" {
  description = "The SNS topic of all alarms, for a pager."
  value       = aws_sns_topic.alarms.arn
}

output "dashboard_name" {
  description = "The dashboard in CloudWatch."
  value       = aws_cloudwatch_dashboard.this.dashboard_name
}
