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

resource "aws_cloudwatch_log_group" "maintenance" {
  name              = "/tidelog/${var.name}/maintenance"
  retention_in_days = coalesce(var.log_retention_days, 30)
  tags              = var.tags
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
  name = "${var.name}-maintenance"
  tags = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = local.on_emr ? "emr-serverless.amazonaws.com" : "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = aws_iam_role.maintenance.id
  policy = var.store_policy
}
