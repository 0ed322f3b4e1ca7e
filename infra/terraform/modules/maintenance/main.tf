# Maintenance: one Fargate task that looks after all topics, round after round. Its image is the one that the tests run with
# Spark 4.2, which EMR does not offer. Two at once, as during a deployment, do no harm.

locals {
  container = {
    name                   = "maintenance"
    image                  = var.image
    essential              = true
    command                = ["-m", "compaction", "--store", var.store_uri, "--workers", "local", "--every", "${var.every_seconds}s", "--json"]
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
  trust = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_cloudwatch_log_group" "maintenance" {
  name              = "/tidelog/${var.name}/maintenance"
  retention_in_days = var.log_retention_days
  tags              = var.tags
}

resource "aws_ecs_task_definition" "maintenance" {
  family                   = "${var.name}-maintenance"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  task_role_arn            = aws_iam_role.maintenance.arn
  execution_role_arn       = aws_iam_role.execution.arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  volume {
    name = "tmp"
  }
}

resource "aws_ecs_service" "maintenance" {
  name                               = "${var.name}-maintenance"
  cluster                            = var.cluster_arn
  task_definition                    = aws_ecs_task_definition.maintenance.arn
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
}

resource "aws_security_group" "maintenance" {
  name        = "${var.name}-maintenance"
  description = "Maintenance: nobody comes in."
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "tls" {
  security_group_id = aws_security_group.maintenance.id
  description       = "The bucket, images, logs."
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_iam_role" "maintenance" {
  name               = "${var.name}-maintenance"
  assume_role_policy = local.trust
  tags               = var.tags
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = aws_iam_role.maintenance.id
  policy = var.store_policy
}

resource "aws_iam_role" "execution" {
  name               = "${var.name}-maintenance-execution"
  assume_role_policy = local.trust
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.id
  # A token for the registry can't be asked for by resource.
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
