# One task that runs rounds for ever, in one process.

locals {
  container = {
    name                   = "maintenance"
    image                  = var.image
    essential              = true
    command                = ["-m", "compaction", "--store", var.store_uri, "--workers", "local", "--every", "${local.every_seconds}s", "--json"]
    readonlyRootFilesystem = true
    user                   = "10001:10001"
    stopTimeout            = 30
    environment            = [{ name = "AWS_REGION", value = var.region }]
    mountPoints            = [{ sourceVolume = "tmp", containerPath = "/tmp", readOnly = false }]
    linuxParameters        = { capabilities = { drop = ["ALL"], add = [] } }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.maintenance.name
        awslogs-region        = var.region
        awslogs-stream-prefix = "maintenance"
      }
    }
  }
}

resource "aws_ecs_task_definition" "maintenance" {
  count                    = local.on_emr ? 0 : 1
  family                   = "${var.name}-maintenance"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  task_role_arn            = aws_iam_role.maintenance.arn
  execution_role_arn       = aws_iam_role.execution[0].arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  volume {
    name = "tmp"
  }
}

resource "aws_ecs_service" "maintenance" {
  count                              = local.on_emr ? 0 : 1
  name                               = "${var.name}-maintenance"
  cluster                            = var.cluster_arn
  task_definition                    = aws_ecs_task_definition.maintenance[0].arn
  launch_type                        = "FARGATE"
  desired_count                      = 1
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  enable_execute_command             = false
  tags                               = var.tags

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.maintenance.id]
    assign_public_ip = var.assign_public_ip
  }

  lifecycle {
    precondition {
      condition     = var.cluster_arn != null
      error_message = "cluster_arn must be given when maintenance runs on Fargate."
    }
  }
}

resource "aws_iam_role" "execution" {
  count = local.on_emr ? 0 : 1
  name  = "${var.name}-maintenance-execution"
  tags  = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "execution" {
  count = local.on_emr ? 0 : 1
  name  = "start"
  role  = aws_iam_role.execution[0].id
  # The permission for a registry token can't be limited to a resource.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Sid = "RegistryToken", Effect = "Allow", Action = "ecr:GetAuthorizationToken", Resource = "*" },
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
        Resource = "${aws_cloudwatch_log_group.maintenance.arn}:log-stream:*"
      },
    ]
  })
}

moved {
  from = aws_ecs_task_definition.maintenance
  to   = aws_ecs_task_definition.maintenance[0]
}

moved {
  from = aws_ecs_service.maintenance
  to   = aws_ecs_service.maintenance[0]
}

moved {
  from = aws_iam_role.execution
  to   = aws_iam_role.execution[0]
}

moved {
  from = aws_iam_role_policy.execution
  to   = aws_iam_role_policy.execution[0]
}
