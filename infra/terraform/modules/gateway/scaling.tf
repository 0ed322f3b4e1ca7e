# More gateways when the CPU is busy or, with a collector, when bodies in flight fill half of their memory.

resource "aws_appautoscaling_target" "gateway" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.gateway.name}"
  min_capacity       = var.count_min
  max_capacity       = var.count_max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "cpu" {
  name               = "cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.gateway.service_namespace
  scalable_dimension = aws_appautoscaling_target.gateway.scalable_dimension
  resource_id        = aws_appautoscaling_target.gateway.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = 60
    scale_out_cooldown = 60
    # Each change of the number moves topics between gateways, so it should change no more often than needed.
    scale_in_cooldown = 600

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

resource "aws_appautoscaling_policy" "in_flight_bytes" {
  count              = length(local.collectors)
  name               = "in-flight-bytes"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.gateway.service_namespace
  scalable_dimension = aws_appautoscaling_target.gateway.scalable_dimension
  resource_id        = aws_appautoscaling_target.gateway.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = local.in_flight_bytes_max / 2
    scale_out_cooldown = 60
    scale_in_cooldown  = 600

    customized_metric_specification {
      namespace   = local.measurements_namespace
      metric_name = "tidelog_request_memory_bytes"
      statistic   = "Average"
    }
  }
}

# The collector reads /metrics inside the task and writes some of it to CloudWatch, in its embedded metric format.
locals {
  measurements_namespace = "Tidelog/${var.name}"
  measured               = ["tidelog_request_memory_bytes", "tidelog_buffered_bytes", "tidelog_cluster_gateways", "tidelog_group_lag_seconds_max"]
  collector_configuration = yamlencode({
    receivers = {
      prometheus = {
        config = {
          scrape_configs = [{
            job_name               = "gateway"
            scrape_interval        = "30s"
            static_configs         = [{ targets = ["127.0.0.1:${local.operations_port}"] }]
            metric_relabel_configs = [{ source_labels = ["__name__"], regex = join("|", local.measured), action = "keep" }]
          }]
        }
      }
    }
    exporters = {
      awsemf = {
        region                  = var.region
        namespace               = local.measurements_namespace
        log_group_name          = "/tidelog/${var.name}/measurements"
        log_stream_name         = "{TaskId}"
        dimension_rollup_option = "NoDimensionRollup"
        metric_declarations     = [{ dimensions = [[]], metric_name_selectors = local.measured }]
      }
    }
    service = { pipelines = { metrics = { receivers = ["prometheus"], exporters = ["awsemf"] } } }
  })
  collectors = var.collector_image == null ? [] : [{
    name                   = "collector"
    image                  = var.collector_image
    essential              = false
    readonlyRootFilesystem = true
    memory                 = 256
    environment            = [{ name = "AOT_CONFIG_CONTENT", value = local.collector_configuration }]
    logConfiguration       = local.logging
  }]
}

resource "aws_cloudwatch_log_group" "measurements" {
  count             = length(local.collectors)
  name              = "/tidelog/${var.name}/measurements"
  retention_in_days = 3
  tags              = var.tags
}
