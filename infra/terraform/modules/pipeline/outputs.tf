output "application_id" {
  description = "The EMR Serverless application, for runs by hand."
  value       = module.emr.application_id
}

output "job_role_arn" {
  description = "The role that jobs run as."
  value       = module.task.role_arn
}
