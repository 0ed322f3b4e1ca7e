output "role_arn" {
  description = "The role that the program has."
  value       = aws_iam_role.this.arn
}

output "role_name" {
  description = "Its name, by which policies are attached."
  value       = aws_iam_role.this.id
}

output "service" {
  description = "The AWS service that takes the role."
  value       = jsondecode(aws_iam_role.this.assume_role_policy).Statement[0].Principal.Service
}

output "security_group_id" {
  description = "The security group of the program."
  value       = aws_security_group.this.id
}

output "log_group_name" {
  description = "Where its log is; null without one."
  value       = one(aws_cloudwatch_log_group.this[*].name)
}

output "log_group_arn" {
  description = "The ARN of that log."
  value       = one(aws_cloudwatch_log_group.this[*].arn)
}

output "execution_role_arn" {
  description = "The role that starts the task on Fargate; null on EMR."
  value       = one(aws_iam_role.execution[*].arn)
}

output "execution_policy" {
  description = "What that role may do: pull images, write the log, read secrets; null on EMR."
  value       = one(aws_iam_role_policy.execution[*].policy)
}

output "container" {
  description = "What all containers of the program's image have: no rights on the machine, and a read-only root."
  value = {
    essential              = true
    readonlyRootFilesystem = true
    user                   = "10001:10001"
    linuxParameters        = { capabilities = { drop = ["ALL"], add = [] }, initProcessEnabled = false }
  }
}
