# Measures from the logs, alarms on them, and a dashboard. Each alarm is explained in docs/deploy.md.

locals {
  namespace = "Tidelog/${var.name}"
  # Requests that succeed are measured only where they are logged: without a figure an alarm on them could never fire.
  is_timed = var.log_requests == "all"
  measures = {
    acknowledgement_ms = {
      group   = var.gateway_log_group_name
      pattern = "{ $.event = \"request\" && $.method = \"POST\" && $.route = \"*/records\" && $.status = 200 }"
      value   = "$.duration_ms"
      unit    = "Milliseconds"
    }
    refusals = {
      group   = var.gateway_log_group_name
      pattern = "{ $.event = \"request\" && ($.status = 503 || $.status = 429) }"
      value   = "1"
      unit    = "Count"
    }
    failures = {
      group   = var.gateway_log_group_name
      pattern = "{ $.event = \"request\" && ($.status = 500 || $.status = 504) }"
      value   = "1"
      unit    = "Count"
    }
    drain_failures = {
      group   = var.gateway_log_group_name
      pattern = "{ $.event = \"topic * can't be drained*\" }"
      value   = "1"
      unit    = "Count"
    }
    maintenance_rounds = {
      group   = var.maintenance_log_group_name
      pattern = "{ $.event = \"round\" }"
      value   = "1"
      unit    = "Count"
    }
    maintenance_failures = {
      group   = var.maintenance_log_group_name
      pattern = "{ $.event = \"failed\" }"
      value   = "1"
      unit    = "Count"
    }
    waiting_segments = {
      group   = var.maintenance_log_group_name
      pattern = "{ $.event = \"round\" }"
      value   = "$.waiting_segments"
      unit    = "Count"
    }
    orphans = {
      group   = var.maintenance_log_group_name
      pattern = "{ $.event = \"delete\" && $.why = \"no commit names it*\" }"
      value   = "1"
      unit    = "Count"
    }
  }

  # Each alarm is on one statistic of one measure. Missing data is "breaching" where silence is the trouble.
  alarms = {
    acknowledgement-slow = {
      measure    = "acknowledgement_ms", statistic = null, percentile = "p99", period = 300, periods = 2
      comparison = "GreaterThanThreshold", threshold = var.acknowledgement_ms_max, missing = "notBreaching"
      says       = "One in a hundred produce requests takes longer than it may."
    }
    refusals = {
      measure    = "refusals", statistic = "Sum", percentile = null, period = 300, periods = 2
      comparison = "GreaterThanThreshold", threshold = var.refusals_max, missing = "notBreaching"
      says       = "Requests are refused for lack of room, or because the store fails."
    }
    failures = {
      measure    = "failures", statistic = "Sum", percentile = null, period = 300, periods = 1
      comparison = "GreaterThanThreshold", threshold = 0, missing = "notBreaching"
      says       = "Requests ended with 500 or 504."
    }
    drains-fail = {
      measure    = "drain_failures", statistic = "Sum", percentile = null, period = 900, periods = 2
      comparison = "GreaterThanThreshold", threshold = 0, missing = "notBreaching"
      says       = "Gateways can't bring records from a journal into topics' tables."
    }
    maintenance-behind = {
      measure    = "maintenance_rounds", statistic = "Sum", percentile = null, period = 3600, periods = 1
      comparison = "LessThanThreshold", threshold = 1, missing = "breaching"
      says       = "Maintenance has ended no round in an hour: small segments pile up, and records do not expire."
    }
    maintenance-fails = {
      measure    = "maintenance_failures", statistic = "Sum", percentile = null, period = 3600, periods = 1
      comparison = "GreaterThanThreshold", threshold = 0, missing = "notBreaching"
      says       = "Maintenance failed for at least one topic."
    }
    segments-waiting = {
      measure    = "waiting_segments", statistic = "Maximum", percentile = null, period = 3600, periods = 2
      comparison = "GreaterThanThreshold", threshold = var.waiting_segments_max, missing = "notBreaching"
      says       = "Maintenance runs, but its backlog of unmerged segments is too large."
    }
    orphans = {
      measure    = "orphans", statistic = "Sum", percentile = null, period = 86400, periods = 1
      comparison = "GreaterThanThreshold", threshold = var.orphans_max, missing = "notBreaching"
      says       = "Many uploaded segments were never committed: gateways or jobs crash in the middle of their work."
    }
  }
}

resource "aws_cloudwatch_log_metric_filter" "measure" {
  for_each       = local.measures
  name           = "${var.name}-${each.key}"
  log_group_name = each.value.group
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.namespace
    name      = each.key
    value     = each.value.value
    unit      = each.value.unit
  }
}

# Not encrypted with AWS's own key (alias/aws/sns): alarms may not use it, and no message would be sent. Alarms hold no secrets.
resource "aws_sns_topic" "alarms" {
  name = "${var.name}-alarms"
  tags = var.tags
}

resource "aws_sns_topic_subscription" "email" {
  for_each  = toset(var.emails)
  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = each.key
}

resource "aws_cloudwatch_metric_alarm" "measure" {
  for_each            = { for name, alarm in local.alarms : name => alarm if alarm.measure != "acknowledgement_ms" || local.is_timed }
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.says
  namespace           = local.namespace
  metric_name         = each.value.measure
  statistic           = each.value.statistic
  extended_statistic  = each.value.percentile
  period              = each.value.period
  evaluation_periods  = each.value.periods
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  treat_missing_data  = each.value.missing
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
  depends_on          = [aws_cloudwatch_log_metric_filter.measure]
}

resource "aws_cloudwatch_metric_alarm" "unhealthy" {
  alarm_name          = "${var.name}-gateway-down"
  alarm_description   = "A gateway is not ready; the others serve its topics."
  namespace           = "AWS/ApplicationELB"
  metric_name         = "UnHealthyHostCount"
  dimensions          = { LoadBalancer = var.balancer_arn_suffix, TargetGroup = var.target_group_arn_suffix }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "breaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}

# Written by the collector beside each gateway, so only where there is one. Each gateway reports its own groups.
resource "aws_cloudwatch_metric_alarm" "consumer_lag" {
  count               = var.has_collector ? 1 : 0
  alarm_name          = "${var.name}-consumer-lag"
  alarm_description   = "A consumer group has not read records for longer than it may."
  namespace           = local.namespace
  metric_name         = local.lag
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 10
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.consumer_lag_seconds_max
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}

# Of the whole account, unless the tag is made a cost allocation tag: see docs/deploy.md.
resource "aws_budgets_budget" "daily" {
  count        = var.daily_usd_max == null ? 0 : 1
  name         = "${var.name}-daily"
  budget_type  = "COST"
  time_unit    = "DAILY"
  limit_unit   = "USD"
  limit_amount = tostring(var.daily_usd_max)

  notification {
    comparison_operator        = "GREATER_THAN"
    notification_type          = "ACTUAL"
    threshold                  = 100
    threshold_type             = "PERCENTAGE"
    subscriber_email_addresses = var.emails
  }

  lifecycle {
    precondition {
      condition     = length(var.emails) > 0
      error_message = "daily_usd_max needs an address in emails."
    }
  }
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = [for index, graph in local.graphs : {
      type   = "metric"
      x      = index % 3 * 8
      y      = floor(index / 3) * 6
      width  = 8
      height = 6
      properties = {
        title   = graph.title
        region  = var.region
        view    = "timeSeries"
        stat    = graph.stat
        period  = 60
        metrics = graph.metrics
      }
    }]
  })
}

locals {
  balancer = ["LoadBalancer", var.balancer_arn_suffix]
  service  = ["ClusterName", var.cluster_name, "ServiceName", var.gateway_service_name]
  lag      = "tidelog_group_lag_seconds_max"
  graphs = concat(local.lag_graphs, local.acknowledgement_graphs, [
    {
      title = "Requests", stat = "Sum"
      metrics = [
        concat(["AWS/ApplicationELB", "RequestCount"], local.balancer),
        [local.namespace, "refusals"],
        [local.namespace, "failures"],
      ]
    },
    {
      title   = "Bytes by the load balancer", stat = "Sum"
      metrics = [concat(["AWS/ApplicationELB", "ProcessedBytes"], local.balancer)]
    },
    {
      title   = "CPU of the gateways, %", stat = "Average"
      metrics = [concat(["AWS/ECS", "CPUUtilization"], local.service)]
    },
    {
      title   = "Memory of the gateways, %", stat = "Maximum"
      metrics = [concat(["AWS/ECS", "MemoryUtilization"], local.service)]
    },
    {
      title   = "Drains that failed", stat = "Sum"
      metrics = [[local.namespace, "drain_failures"]]
    },
    {
      title   = "Segments that wait to be merged", stat = "Maximum"
      metrics = [[local.namespace, "waiting_segments"]]
    },
    {
      title = "Maintenance", stat = "Sum"
      metrics = [
        [local.namespace, "maintenance_rounds"],
        [local.namespace, "maintenance_failures"],
        [local.namespace, "orphans"],
      ]
    },
  ])
  lag_graphs = var.has_collector ? [
    {
      title   = "Oldest unread record of a consumer group, s", stat = "Maximum"
      metrics = [[local.namespace, local.lag]]
    },
  ] : []
  acknowledgement_graphs = local.is_timed ? [
    {
      title = "Acknowledgement, ms", stat = "p99"
      metrics = [
        [local.namespace, "acknowledgement_ms", { stat = "p50", label = "p50" }],
        [local.namespace, "acknowledgement_ms", { stat = "p99", label = "p99" }],
      ]
    },
  ] : []
}
