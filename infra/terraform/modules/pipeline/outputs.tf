output "application_id" {
  description = "The EMR Serverless application, for runs by hand."
  value       = aws_emrserverless_application.this.id
}

output "job_role_arn" {
  description = "The role that jobs run as."
  value       = aws_iam_role.job.arn
}
