module "task" {
  source         = "../task"
  name           = var.name
  program        = "gateway"
  runs_on        = "fargate"
  vpc_id         = var.vpc_id
  security_group = { suffix = "gateway", description = "Gateways." }
  log_days       = coalesce(var.log_retention_days, 14)
  images_arns    = var.repository_arns
  secret_arns    = values(local.secrets)
  tags           = var.tags
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = module.task.role_name
  policy = var.store_policy
}

resource "aws_iam_role_policy" "measurements" {
  count = length(local.collectors)
  name  = "measurements"
  role  = module.task.role_name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "WriteMeasurements"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
      Resource = ["${aws_cloudwatch_log_group.measurements[0].arn}:*"]
    }]
  })
}

moved {
  from = aws_cloudwatch_log_group.gateway
  to   = module.task.aws_cloudwatch_log_group.this[0]
}

moved {
  from = aws_security_group.gateway
  to   = module.task.aws_security_group.this
}

moved {
  from = aws_vpc_security_group_egress_rule.tls
  to   = module.task.aws_vpc_security_group_egress_rule.tls
}

moved {
  from = aws_iam_role.gateway
  to   = module.task.aws_iam_role.this
}

moved {
  from = aws_iam_role.execution
  to   = module.task.aws_iam_role.execution[0]
}

moved {
  from = aws_iam_role_policy.execution
  to   = module.task.aws_iam_role_policy.execution[0]
}
