locals {
  trust = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })

  # Starts the task: pulls the image and opens the log. The permission for a registry token can't be limited to a resource.
  execution_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat([
      {
        Sid      = "RegistryToken"
        Effect   = "Allow"
        Action   = "ecr:GetAuthorizationToken"
        Resource = "*"
      },
      {
        Sid      = "PullImages"
        Effect   = "Allow"
        Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        Resource = var.repository_arns
      },
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.gateway.arn}:log-stream:*"
      },
      ], [
      for arns in length(local.secrets) > 0 ? [values(local.secrets)] : [] : {
        Sid      = "ReadSecrets"
        Effect   = "Allow"
        Action   = ["secretsmanager:GetSecretValue"]
        Resource = sort(distinct(arns))
      }
    ])
  })
}

resource "aws_iam_role" "gateway" {
  name               = "${var.name}-gateway"
  assume_role_policy = local.trust
  tags               = var.tags
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = aws_iam_role.gateway.id
  policy = var.store_policy
}

resource "aws_iam_role_policy" "measurements" {
  count = length(local.collectors)
  name  = "measurements"
  role  = aws_iam_role.gateway.id
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

resource "aws_iam_role" "execution" {
  name               = "${var.name}-gateway-execution"
  assume_role_policy = local.trust
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name   = "start"
  role   = aws_iam_role.execution.id
  policy = local.execution_policy
}
