# terraform test, without credentials or network: silence of maintenance is an alarm, and lag where there is a collector.
mock_provider "aws" {
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:test" }
  }
}

variables {
  region                     = "eu-central-1"
  gateway_log_group_name     = "/tidelog/tidelog/gateway"
  maintenance_log_group_name = "/tidelog/tidelog/maintenance"
  cluster_name               = "tidelog"
  gateway_service_name       = "tidelog-gateway"
  balancer_arn_suffix        = "app/tidelog/0123456789abcdef"
  target_group_arn_suffix    = "targetgroup/tidelog/0123456789abcdef"
  emails                     = ["on-call@example.com"]
}

run "without_a_collector" {
  command = apply

  assert {
    condition     = !contains(keys(aws_cloudwatch_metric_alarm.measure), "acknowledgement-slow") && !strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "acknowledgement_ms")
    error_message = "Gateways log only requests that fail: an alarm or a graph on the time of those that succeed would stay empty."
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.consumer_lag) == 0 && !strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "group_lag")
    error_message = "Without a collector the lag of consumers is not measured, so there is no alarm on it."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.measure["maintenance-behind"].treat_missing_data == "breaching"
    error_message = "Silent maintenance must raise the alarm."
  }

  assert {
    condition     = alltrue([for each in aws_cloudwatch_metric_alarm.measure : contains(each.alarm_actions, aws_sns_topic.alarms.arn)])
    error_message = "Every alarm must notify the topic."
  }

  assert {
    condition     = aws_sns_topic.alarms.kms_master_key_id == null
    error_message = "Alarms may not use AWS's own key: no message would be sent."
  }

  assert {
    condition     = alltrue([for each in aws_cloudwatch_metric_alarm.measure : contains([for filter in aws_cloudwatch_log_metric_filter.measure : filter.metric_transformation[0].name], each.metric_name)])
    error_message = "Every alarm has a measure behind it."
  }
}

run "where_all_requests_are_logged" {
  command = plan

  variables {
    log_requests = "all"
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.measure["acknowledgement-slow"].metric_name == "acknowledgement_ms" && strcontains(aws_cloudwatch_dashboard.this.dashboard_body, "acknowledgement_ms")
    error_message = "Slow acknowledgements raise an alarm where they are measured."
  }
}

run "with_a_collector" {
  command = apply

  variables {
    has_collector = true
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.consumer_lag[0].statistic == "Maximum" && aws_cloudwatch_metric_alarm.consumer_lag[0].threshold == 900
    error_message = "The group that is furthest behind counts."
  }

  assert {
    condition     = strcontains(aws_cloudwatch_dashboard.this.dashboard_body, aws_cloudwatch_metric_alarm.consumer_lag[0].metric_name)
    error_message = "The dashboard shows what the alarm watches."
  }
}

run "what_would_always_or_never_wake_somebody_is_refused" {
  command = plan

  variables {
    consumer_lag_seconds_max = 5
    waiting_segments_max     = 10
    balancer_arn_suffix      = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/test/0123456789abcdef"
  }

  expect_failures = [var.consumer_lag_seconds_max, var.waiting_segments_max, var.balancer_arn_suffix]
}
