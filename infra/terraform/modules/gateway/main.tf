# Gateways on Fargate behind a load balancer. They are stateless: any number, started and ended at any time.

locals {
  port = 8080
  # Health checks and the collector have their own connections here: clients can't make a gateway look dead.
  operations_port = 8081
  connections_max = 1000
  # How long the load balancer drains a target, and how long the task may take to end: longer than the longest poll.
  longest_poll_seconds = 60
  deregistration_delay = 90
  stop_timeout         = 120
  drain_notice_ms      = 20000
  drain_timeout_ms     = 70000
  health_interval      = 10
  # The load balancer closes silent connections. Otherwise it could send a request into one that the gateway just closed: 502.
  header_idle_ms      = (local.deregistration_delay + 30) * 1000
  in_flight_bytes_max = 40 * 1024 * 1024
  # TLS takes 64 KiB for each connection, rights up to 64 MiB; a thousand connections of Kafka's clients 32 MiB, with TLS 96 MiB.
  has_kafka        = var.kafka_port != null
  kafka_memory_mib = local.has_kafka ? (local.is_tls_inside ? 96 : 32) : 0
  # A reader of history runs while clients are far behind.
  reader_memory_mib  = 256
  gateway_memory_mib = 704 + local.reader_memory_mib + (local.is_tls_inside ? 64 : 0) + (local.is_authenticated ? 64 : 0) + local.kafka_memory_mib
  is_authenticated   = var.auth == "on"
  # Without authentication the gateway starts only when told that this is meant.
  access = local.is_authenticated ? merge(
    { TIDELOG_AUTH = "on" },
    length(var.super_users) > 0 ? { TIDELOG_SUPER_USERS = join(",", var.super_users) } : {},
    var.oidc == null ? {} : { TIDELOG_OIDC_ISSUER = var.oidc.issuer, TIDELOG_OIDC_AUDIENCE = var.oidc.audience },
    try(var.oidc.client_id, null) == null ? {} : { TIDELOG_OIDC_CLIENT_ID = var.oidc.client_id },
    ) : {
    TIDELOG_AUTH     = "off"
    TIDELOG_INSECURE = "true"
    # No token keeps a web page out whose name suddenly resolves to the load balancer (DNS rebinding).
    TIDELOG_ALLOWED_HOSTS = join(",", compact([aws_lb.this.dns_name, var.host_name]))
  }
  secrets = merge(
    local.is_tls_inside ? { GATEWAY_TLS_PEM = var.tls_secret_arn } : {},
    local.is_authenticated && var.cluster_key_secret_arn != null ? { GATEWAY_CLUSTER_KEY = var.cluster_key_secret_arn } : {},
    local.is_authenticated && var.bootstrap_token_secret_arn != null ? { GATEWAY_BOOTSTRAP_TOKEN = var.bootstrap_token_secret_arn } : {},
  )
  environment = merge(local.has_kafka ? { GATEWAY_KAFKA_PORT = tostring(var.kafka_port) } : {}, local.is_tls_inside ? { TIDELOG_TLS_PEER_NAME = var.tls_name } : {}, local.access, {
    TIDELOG_STORE            = var.store_uri
    TIDELOG_DRAIN_NOTICE_MS  = tostring(local.drain_notice_ms)
    TIDELOG_DRAIN_TIMEOUT_MS = tostring(local.drain_timeout_ms)
    TIDELOG_HEADER_IDLE_MS   = tostring(local.header_idle_ms)
    TIDELOG_OPS_PORT         = tostring(local.operations_port)
    TIDELOG_CONNECTIONS_MAX  = tostring(local.connections_max)
    # The load balancer has few addresses, which stand for all clients.
    TIDELOG_CONNECTIONS_PER_ADDRESS_MAX = tostring(local.connections_max)
    TIDELOG_LOG_LEVEL                   = "info"
    TIDELOG_LOG_REQUESTS                = var.log_requests
    # gateway_memory_mib is one gateway's. More cores: more tasks (scaling.tf).
    TIDELOG_WORKERS = "1"
    AWS_REGION      = var.region
  })
  logging = {
    logDriver = "awslogs"
    options = {
      awslogs-group         = module.task.log_group_name
      awslogs-region        = var.region
      awslogs-stream-prefix = "gateway"
      # Log lines are dropped before the gateway waits for them.
      mode            = "non-blocking"
      max-buffer-size = "4m"
    }
  }
  gateway = merge(module.task.container, length(local.secrets) > 0 ? { secrets = [for name in sort(keys(local.secrets)) : { name = name, valueFrom = local.secrets[name] }] } : {}, {
    name             = "gateway"
    image            = var.image
    stopTimeout      = local.stop_timeout
    memory           = local.gateway_memory_mib
    environment      = [for name in sort(keys(local.environment)) : { name = name, value = local.environment[name] }]
    portMappings     = [for port in compact([local.port, var.kafka_port]) : { containerPort = tonumber(port), hostPort = tonumber(port), protocol = "tcp" }]
    logConfiguration = local.logging
  })
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags
}

resource "aws_ecs_task_definition" "gateway" {
  family                   = "${var.name}-gateway"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  task_role_arn            = module.task.role_arn
  execution_role_arn       = module.task.execution_role_arn
  container_definitions    = jsonencode(concat([local.gateway], local.collectors))
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.cpu_architecture
  }

  lifecycle {
    precondition {
      condition     = var.memory_mib >= sum([for container in concat([local.gateway], local.collectors) : container.memory])
      error_message = "memory_mib must hold the gateway, its reader of history and the collector."
    }
  }
}

resource "aws_ecs_service" "gateway" {
  name                               = "${var.name}-gateway"
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.gateway.arn
  launch_type                        = "FARGATE"
  desired_count                      = var.count_min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = 60
  enable_execute_command             = false
  propagate_tags                     = "SERVICE"
  tags                               = var.tags

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [module.task.security_group_id]
    assign_public_ip = var.assign_public_ip
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.gateway.arn
    container_name   = local.gateway.name
    container_port   = local.port
  }

  dynamic "load_balancer" {
    for_each = aws_lb_target_group.kafka

    content {
      target_group_arn = load_balancer.value.arn
      container_name   = local.gateway.name
      container_port   = var.kafka_port
    }
  }

  lifecycle {
    # Set by autoscaling.
    ignore_changes = [desired_count]
  }

  depends_on = [aws_lb_listener.plain, aws_lb_listener.tls, aws_lb_listener.kafka]
}
