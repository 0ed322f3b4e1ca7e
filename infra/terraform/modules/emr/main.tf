# An application on EMR Serverless, and runs of Spark jobs in it by a schedule. A run starts the application, which stops after a
# while without one.

resource "aws_emrserverless_application" "this" {
  name          = var.name
  release_label = var.release_label
  type          = "spark"
  architecture  = var.architecture
  tags          = var.tags

  dynamic "image_configuration" {
    for_each = var.image[*]

    content {
      image_uri = image_configuration.value
    }
  }

  maximum_capacity {
    cpu    = "${var.vcpu_max} vCPU"
    memory = "${var.vcpu_max * var.vcpu_gb} GB"
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
    security_group_ids = [var.security_group_id]
  }
}

resource "aws_iam_role" "schedule" {
  name = "${var.name}-schedule"
  tags = var.tags
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
  name = "start"
  role = aws_iam_role.schedule.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Sid = "StartJobs", Effect = "Allow", Action = "emr-serverless:StartJobRun", Resource = aws_emrserverless_application.this.arn },
      {
        Sid       = "AsTheJob"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = var.role_arn
        Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
      },
    ]
  })
}

resource "aws_scheduler_schedule" "job" {
  for_each            = var.jobs
  name                = each.value.schedule_name
  schedule_expression = each.value.schedule

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    role_arn = aws_iam_role.schedule.arn

    input = jsonencode(merge({
      ApplicationId           = aws_emrserverless_application.this.id
      ClientToken             = "<aws.scheduler.execution-id>"
      ExecutionRoleArn        = var.role_arn
      ExecutionTimeoutMinutes = each.value.timeout_minutes
      Name                    = each.key
      JobDriver = {
        SparkSubmit = {
          EntryPoint            = each.value.entry_point
          EntryPointArguments   = each.value.arguments
          SparkSubmitParameters = join(" ", [for name in sort(keys(each.value.spark)) : "--conf ${name}=${each.value.spark[name]}"])
        }
      }
      }, {
      for log in each.value.log_group_name[*] : "ConfigurationOverrides" => {
        MonitoringConfiguration = {
          CloudWatchLoggingConfiguration = {
            Enabled             = true
            LogGroupName        = log
            LogStreamNamePrefix = each.key
            LogTypes            = { SPARK_DRIVER = ["STDOUT", "STDERR"] }
          }
        }
      }
    }))

    retry_policy {
      maximum_retry_attempts = each.value.retries
    }
  }
}
