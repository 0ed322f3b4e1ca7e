# Your own jobs over the topics' Delta tables, on EMR Serverless: an application, and runs on a schedule. Reading a topic needs no
# Tidelog: format("delta") at s3://bucket/prefix/topics/<topic>. (Tidelog's source and sink need Spark 4.2, and the newest release
# of EMR has 4.0: docs/decisions/010-emr.md. Use infra/docker/spark.Dockerfile for them.)

locals {
  scripts_arn = "arn:aws:s3:::${var.scripts_bucket}"
  # EMR has a Delta Lake of its own there.
  spark = {
    "spark.jars"                      = "/usr/share/aws/delta/lib/delta-spark.jar,/usr/share/aws/delta/lib/delta-storage.jar"
    "spark.sql.catalog.spark_catalog" = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    "spark.sql.extensions"            = "io.delta.sql.DeltaSparkSessionExtension"
  }
}

module "task" {
  source         = "../task"
  name           = var.name
  program        = "job"
  runs_on        = "emr"
  vpc_id         = var.vpc_id
  security_group = { suffix = "jobs", description = "Spark jobs: nobody comes in." }
  tags           = var.tags
}

module "emr" {
  source            = "../emr"
  name              = var.name
  release_label     = var.release_label
  architecture      = "ARM64"
  vcpu_max          = var.vcpu_max
  vcpu_gb           = 8
  subnet_ids        = var.subnet_ids
  security_group_id = module.task.security_group_id
  role_arn          = module.task.role_arn
  tags              = var.tags

  jobs = {
    for name, job in var.jobs : name => {
      schedule_name   = "${var.name}-${name}"
      schedule        = job.schedule
      timeout_minutes = job.timeout_minutes
      entry_point     = "s3://${var.scripts_bucket}/${var.scripts_prefix}/${job.script}"
      arguments       = job.arguments
      spark           = local.spark
      retries         = 1
    }
  }
}

resource "aws_iam_role_policy" "topics" {
  name   = "topics"
  role   = module.task.role_name
  policy = var.store_policy
}

resource "aws_iam_role_policy" "own" {
  name = "own"
  role = module.task.role_name
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

moved {
  from = aws_emrserverless_application.this
  to   = module.emr.aws_emrserverless_application.this
}

moved {
  from = aws_security_group.jobs
  to   = module.task.aws_security_group.this
}

moved {
  from = aws_vpc_security_group_egress_rule.tls
  to   = module.task.aws_vpc_security_group_egress_rule.tls
}

moved {
  from = aws_iam_role.job
  to   = module.task.aws_iam_role.this
}

moved {
  from = aws_iam_role.schedule
  to   = module.emr.aws_iam_role.schedule
}

moved {
  from = aws_iam_role_policy.schedule
  to   = module.emr.aws_iam_role_policy.schedule
}

moved {
  from = aws_scheduler_schedule.job
  to   = module.emr.aws_scheduler_schedule.job
}
