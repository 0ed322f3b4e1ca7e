output "application_id" {
  description = "The application."
  value       = aws_emrserverless_application.this.id
}

output "application_arn" {
  description = "Its ARN."
  value       = aws_emrserverless_application.this.arn
}

output "capacity" {
  description = "The bound of what runs at once: cpu and memory."
  value       = aws_emrserverless_application.this.maximum_capacity[0]
}

output "stops_by_itself" {
  description = "Whether the application stops without a run."
  value       = aws_emrserverless_application.this.auto_stop_configuration[0].enabled
}

output "may_start" {
  description = "What the schedule may do: each action with its resource."
  value       = { for each in jsondecode(aws_iam_role_policy.schedule.policy).Statement : each.Action => each.Resource }
}

output "schedules" {
  description = "The runs by name: when, by which call, and with what."
  value = {
    for name, each in aws_scheduler_schedule.job : name => {
      expression = each.schedule_expression
      call       = each.target[0].arn
      input      = jsondecode(each.target[0].input)
    }
  }
}
