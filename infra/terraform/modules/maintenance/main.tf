# Maintenance: rounds over all topics, one after another. It runs in one of two ways (docs/decisions/010-emr.md):
#
#   fargate.tf  one task that runs rounds for ever, in one process; enough for most
#   emr.tf      an EMR Serverless application and a schedule that starts a round, as wide as Spark makes it
#
# Both have one role, one log and the same lines in it. Two at once, as while one way is changed for the other, do no harm.

locals {
  on_emr        = var.runs_on == "emr"
  every_seconds = var.every_seconds == null ? (local.on_emr ? 600 : 60) : var.every_seconds
}

module "task" {
  source         = "../task"
  name           = var.name
  program        = "maintenance"
  runs_on        = var.runs_on
  vpc_id         = var.vpc_id
  security_group = { suffix = "maintenance", description = "Maintenance: nobody comes in." }
  log_days       = coalesce(var.log_retention_days, 30)
  images_arns    = var.repository_arns
  tags           = var.tags
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = module.task.role_name
  policy = var.store_policy
}

moved {
  from = aws_cloudwatch_log_group.maintenance
  to   = module.task.aws_cloudwatch_log_group.this[0]
}

moved {
  from = aws_security_group.maintenance
  to   = module.task.aws_security_group.this
}

moved {
  from = aws_vpc_security_group_egress_rule.tls
  to   = module.task.aws_vpc_security_group_egress_rule.tls
}

moved {
  from = aws_iam_role.maintenance
  to   = module.task.aws_iam_role.this
}

moved {
  from = aws_iam_role.execution
  to   = module.task.aws_iam_role.execution
}

moved {
  from = aws_iam_role_policy.execution
  to   = module.task.aws_iam_role_policy.execution
}
