# One task that runs rounds for ever, in one process.

locals {
  container = merge(module.task.container, {
    name        = "maintenance"
    image       = var.image
    command     = ["-m", "compaction", "--store", var.store_uri, "--workers", "local", "--every", "${local.every_seconds}s", "--json"]
    stopTimeout = 30
    environment = [{ name = "AWS_REGION", value = var.region }]
    mountPoints = [{ sourceVolume = "tmp", containerPath = "/tmp", readOnly = false }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = module.task.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "maintenance"
      }
    }
  })
}

resource "aws_ecs_task_definition" "maintenance" {
  count                    = local.on_emr ? 0 : 1
  family                   = "${var.name}-maintenance"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  task_role_arn            = module.task.role_arn
  execution_role_arn       = module.task.execution_role_arn
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
    security_groups  = [module.task.security_group_id]
    assign_public_ip = var.assign_public_ip
  }

  lifecycle {
    precondition {
      condition     = var.cluster_arn != null
      error_message = "cluster_arn must be given when maintenance runs on Fargate."
    }
  }
}

moved {
  from = aws_ecs_task_definition.maintenance
  to   = aws_ecs_task_definition.maintenance[0]
}

moved {
  from = aws_ecs_service.maintenance
  to   = aws_ecs_service.maintenance[0]
}
