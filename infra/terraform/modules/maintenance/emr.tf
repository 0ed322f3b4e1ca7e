# Rounds in an application, by a schedule. The image is built from infra/docker/emr.Dockerfile: EMR takes only images built on its
# own.

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
}

module "emr" {
  count             = local.on_emr ? 1 : 0
  source            = "../emr"
  name              = "${var.name}-maintenance"
  release_label     = var.release_label
  architecture      = var.cpu_architecture
  image             = var.image
  vcpu_max          = var.vcpu_max
  vcpu_gb           = 4
  subnet_ids        = var.subnet_ids
  security_group_id = module.task.security_group_id
  role_arn          = module.task.role_arn
  tags              = var.tags

  jobs = {
    maintenance = {
      schedule_name   = "${var.name}-maintenance"
      schedule        = "rate(${ceil(local.every_seconds / 60)} minutes)"
      timeout_minutes = 60
      entry_point     = local.entry_point
      arguments       = ["--store", var.store_uri, "--workers", "spark", "--once", "--timer", "${ceil(local.every_seconds / 60)}m", "--json"]
      spark           = local.spark
      retries         = 0
      log_group_name  = module.task.log_group_name
    }
  }

  depends_on = [aws_ecr_repository_policy.emr]
}

resource "aws_iam_role_policy" "log" {
  count = local.on_emr ? 1 : 0
  name  = "log"
  role  = module.task.role_name
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
        Resource = "${module.task.log_group_arn}:*"
      },
    ]
  })
}

moved {
  from = aws_emrserverless_application.maintenance[0]
  to   = module.emr[0].aws_emrserverless_application.this
}

moved {
  from = aws_iam_role.schedule[0]
  to   = module.emr[0].aws_iam_role.schedule
}

moved {
  from = aws_iam_role_policy.schedule[0]
  to   = module.emr[0].aws_iam_role_policy.schedule
}

moved {
  from = aws_scheduler_schedule.round[0]
  to   = module.emr[0].aws_scheduler_schedule.job["maintenance"]
}
