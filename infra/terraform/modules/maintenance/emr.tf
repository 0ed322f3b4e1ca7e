# An application, and the schedule of its rounds. A round starts the application, which stops after a while without one. The image
# is built from infra/docker/emr.Dockerfile: EMR takes only images built on its own.

locals {
  # The image's account and repository: a precondition below holds var.image to this form.
  repository  = try(regex("^([0-9]{12})\\.dkr\\.ecr\\.[a-z0-9-]+\\.amazonaws\\.com(?:\\.cn)?/([^:@]+)", var.image), ["", ""])
  python      = "/opt/tidelog/bin/python"
  entry_point = "local:///opt/tidelog/maintenance.py"
  # Rewrites run in Python, outside the JVM's heap: two segments at once in each executor.
  spark = {
    "spark.driver.cores"                                   = "2"
    "spark.driver.memory"                                  = "2g"
    "spark.driver.memoryOverhead"                          = "5g"
    "spark.executor.cores"                                 = "2"
    "spark.executor.memory"                                = "2g"
    "spark.executor.memoryOverhead"                        = "5g"
    "spark.dynamicAllocation.maxExecutors"                 = tostring(max(1, floor(var.vcpu_max / 2) - 1))
    "spark.emr-serverless.driverEnv.AWS_REGION"            = var.region
    "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON" = local.python
    "spark.emr-serverless.driverEnv.PYSPARK_PYTHON"        = local.python
    "spark.executorEnv.AWS_REGION"                         = var.region
    "spark.executorEnv.PYSPARK_PYTHON"                     = local.python
  }
}

# EMR pulls the image itself, as a service.
resource "aws_ecr_repository_policy" "emr" {
  count      = local.on_emr ? 1 : 0
  repository = local.repository[1]
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EmrServerlessPullsTheImage"
      Effect    = "Allow"
      Principal = { Service = "emr-serverless.amazonaws.com" }
      Action    = ["ecr:BatchGetImage", "ecr:DescribeImages", "ecr:GetDownloadUrlForLayer"]
      # The application can't be named here: it is made only once its image can be pulled.
      Condition = { ArnLike = { "aws:SourceArn" = "arn:aws:emr-serverless:${var.region}:${local.repository[0]}:/applications/*" } }
    }]
  })
}

resource "aws_emrserverless_application" "maintenance" {
  count         = local.on_emr ? 1 : 0
  name          = "${var.name}-maintenance"
  release_label = var.release_label
  type          = "spark"
  architecture  = var.cpu_architecture
  tags          = var.tags

  image_configuration {
    image_uri = var.image
  }

  maximum_capacity {
    cpu    = "${var.vcpu_max} vCPU"
    memory = "${var.vcpu_max * 4} GB"
  }

  auto_start_configuration {
    enabled = true
  }

  auto_stop_configuration {
    enabled              = true
    idle_timeout_minutes = 5
  }

  network_configuration {
    subnet_ids         = var.subnet_ids
    security_group_ids = [aws_security_group.maintenance.id]
  }

  lifecycle {
    precondition {
      condition     = local.repository[1] != ""
      error_message = "image must lie in ECR when maintenance runs on EMR."
    }
    precondition {
      condition     = local.every_seconds >= 300
      error_message = "every_seconds must be at least 300 when maintenance runs on EMR: starting a run takes minutes."
    }
  }

  depends_on = [aws_ecr_repository_policy.emr]
}

resource "aws_iam_role_policy" "log" {
  count = local.on_emr ? 1 : 0
  name  = "log"
  role  = aws_iam_role.maintenance.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      # EMR looks for the group among the account's (its documentation of logging).
      {
        Sid      = "FindLog"
        Effect   = "Allow"
        Action   = "logs:DescribeLogGroups"
        Resource = "arn:aws:logs:${var.region}:${local.repository[0]}:log-group:*"
      },
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.maintenance.arn}:*"
      },
    ]
  })
}

resource "aws_iam_role" "schedule" {
  count = local.on_emr ? 1 : 0
  name  = "${var.name}-maintenance-schedule"
  tags  = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "scheduler.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "schedule" {
  count = local.on_emr ? 1 : 0
  name  = "start"
  role  = aws_iam_role.schedule[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "StartRounds"
        Effect   = "Allow"
        Action   = "emr-serverless:StartJobRun"
        Resource = aws_emrserverless_application.maintenance[0].arn
      },
      {
        Sid       = "AsMaintenance"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.maintenance.arn
        Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
      },
    ]
  })
}

resource "aws_scheduler_schedule" "round" {
  count               = local.on_emr ? 1 : 0
  name                = "${var.name}-maintenance"
  schedule_expression = "rate(${ceil(local.every_seconds / 60)} minutes)"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    role_arn = aws_iam_role.schedule[0].arn

    input = jsonencode({
      ApplicationId           = aws_emrserverless_application.maintenance[0].id
      ClientToken             = "<aws.scheduler.execution-id>"
      ExecutionRoleArn        = aws_iam_role.maintenance.arn
      ExecutionTimeoutMinutes = 60
      Name                    = "maintenance"
      JobDriver = {
        SparkSubmit = {
          EntryPoint            = local.entry_point
          EntryPointArguments   = ["--store", var.store_uri, "--workers", "spark", "--once", "--json"]
          SparkSubmitParameters = join(" ", [for name in sort(keys(local.spark)) : "--conf ${name}=${local.spark[name]}"])
        }
      }
      ConfigurationOverrides = {
        MonitoringConfiguration = {
          CloudWatchLoggingConfiguration = {
            Enabled             = true
            LogGroupName        = aws_cloudwatch_log_group.maintenance.name
            LogStreamNamePrefix = "maintenance"
            LogTypes            = { SPARK_DRIVER = ["STDOUT", "STDERR"] }
          }
        }
      }
    })

    retry_policy {
      maximum_retry_attempts = 0
    }
  }
}
