# Your own jobs over the topics' Delta tables, on EMR Serverless: an application, and runs on a schedule. Reading a topic needs no
# Tidelog: format("delta") at s3://bucket/prefix/topics/<topic>. (Tidelog's source and sink need Spark 4.2, and the newest release
# of EMR has 4.0: docs/decisions/010-emr.md. Use infra/docker/spark.Dockerfile for them.)

locals {
  scripts_arn = "arn:aws:s3:::${var.scripts_bucket}"
}

resource "aws_emrserverless_application" "this" {
  name          = var.name
  release_label = var.release_label
  type          = "spark"
  architecture  = "ARM64"
  tags          = var.tags

  maximum_capacity {
    cpu    = "${var.vcpu_max} vCPU"
    memory = "${var.vcpu_max * 8} GB"
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
    security_group_ids = [aws_security_group.jobs.id]
  }
}

resource "aws_security_group" "jobs" {
  name        = "${var.name}-jobs"
  description = "Spark jobs: nobody comes in."
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "tls" {
  security_group_id = aws_security_group.jobs.id
  description       = "The bucket."
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_iam_role" "job" {
  name = "${var.name}-job"
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "emr-serverless.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "topics" {
  name   = "topics"
  role   = aws_iam_role.job.id
  policy = var.store_policy
}

resource "aws_iam_role_policy" "own" {
  name = "own"
  role = aws_iam_role.job.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Sid = "List", Effect = "Allow", Action = "s3:ListBucket", Resource = local.scripts_arn },
      { Sid = "ReadScripts", Effect = "Allow", Action = "s3:GetObject", Resource = "${local.scripts_arn}/${var.scripts_prefix}/*" },
      {
        Sid      = "WriteResults"
        Effect   = "Allow"
        Action   = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        Resource = "${local.scripts_arn}/${var.results_prefix}/*"
      },
    ]
  })
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
        Resource  = aws_iam_role.job.arn
        Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
      },
    ]
  })
}

resource "aws_scheduler_schedule" "job" {
  for_each            = var.jobs
  name                = "${var.name}-${each.key}"
  schedule_expression = each.value.schedule

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    role_arn = aws_iam_role.schedule.arn

    input = jsonencode({
      ApplicationId           = aws_emrserverless_application.this.id
      ClientToken             = "<aws.scheduler.execution-id>"
      ExecutionRoleArn        = aws_iam_role.job.arn
      ExecutionTimeoutMinutes = each.value.timeout_minutes
      Name                    = each.key
      JobDriver = {
        SparkSubmit = {
          EntryPoint            = "s3://${var.scripts_bucket}/${var.scripts_prefix}/${each.value.script}"
          EntryPointArguments   = each.value.arguments
          SparkSubmitParameters = "--conf spark.jars=${local.delta_jars} --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
        }
      }
    })

    retry_policy {
      maximum_retry_attempts = 1
    }
  }
}

locals {
  # Where EMR keeps its Delta Lake.
  delta_jars = "/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar"
}
