# What a program of Tidelog runs with, on Fargate or on EMR Serverless: a role, a security group that lets it reach AWS, and where
# it is asked for a log. On Fargate there is also the role that starts its task, and what its containers have in common (the output container).

locals {
  on_fargate = var.runs_on == "fargate"
  # The permission for a registry token can't be limited to a resource.
  execution_statements = concat([
    { Sid = "RegistryToken", Effect = "Allow", Action = "ecr:GetAuthorizationToken", Resource = "*" },
    {
      Sid      = "PullImages"
      Effect   = "Allow"
      Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      Resource = var.images_arns
    },
    ], [
    for arn in aws_cloudwatch_log_group.this[*].arn : {
      Sid      = "WriteLog"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = "${arn}:log-stream:*"
    }
    ], [
    for arns in length(var.secret_arns) > 0 ? [var.secret_arns] : [] : {
      Sid      = "ReadSecrets"
      Effect   = "Allow"
      Action   = ["secretsmanager:GetSecretValue"]
      Resource = sort(distinct(arns))
    }
  ])
}

resource "aws_cloudwatch_log_group" "this" {
  count             = length(var.log_days[*])
  name              = "/tidelog/${var.name}/${var.program}"
  retention_in_days = var.log_days
  tags              = var.tags
}

resource "aws_security_group" "this" {
  name        = "${var.name}-${var.security_group.suffix}"
  description = var.security_group.description
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "tls" {
  security_group_id = aws_security_group.this.id
  description       = "The bucket, images, logs."
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_iam_role" "this" {
  name = "${var.name}-${var.program}"
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = local.on_fargate ? "ecs-tasks.amazonaws.com" : "emr-serverless.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role" "execution" {
  count              = local.on_fargate ? 1 : 0
  name               = "${var.name}-${var.program}-execution"
  assume_role_policy = aws_iam_role.this.assume_role_policy
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  count  = local.on_fargate ? 1 : 0
  name   = "start"
  role   = aws_iam_role.execution[0].id
  policy = jsonencode({ Version = "2012-10-17", Statement = local.execution_statements })
}
