# The load balancer is internal by default: tokens are one door, the network is another.

resource "aws_security_group" "balancer" {
  name        = "${var.name}-balancer"
  description = "Clients of the gateways."
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each          = toset(var.client_cidrs)
  security_group_id = aws_security_group.balancer.id
  description       = "Clients."
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = local.listener_port
  to_port           = local.listener_port
}

resource "aws_vpc_security_group_egress_rule" "to_gateways" {
  security_group_id            = aws_security_group.balancer.id
  description                  = "Requests."
  referenced_security_group_id = module.task.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_egress_rule" "health_of_gateways" {
  security_group_id            = aws_security_group.balancer.id
  description                  = "Health checks."
  referenced_security_group_id = module.task.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.operations_port
  to_port                      = local.operations_port
}

resource "aws_vpc_security_group_ingress_rule" "from_balancer" {
  security_group_id            = module.task.security_group_id
  description                  = "The load balancer."
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_ingress_rule" "health_from_balancer" {
  security_group_id            = module.task.security_group_id
  description                  = "The load balancer's health checks."
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.operations_port
  to_port                      = local.operations_port
}

resource "aws_vpc_security_group_ingress_rule" "from_gateways" {
  security_group_id            = module.task.security_group_id
  description                  = "Requests that another gateway passes on."
  referenced_security_group_id = module.task.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_egress_rule" "between_gateways" {
  security_group_id            = module.task.security_group_id
  description                  = "Requests that are passed on."
  referenced_security_group_id = module.task.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

locals {
  is_tls        = var.certificate_arn != null
  is_tls_inside = var.tls_secret_arn != null
  listener_port = local.is_tls ? 443 : 80
}

resource "aws_lb" "this" {
  name               = var.name
  internal           = var.is_internal
  load_balancer_type = "application"
  subnets            = var.subnet_ids
  security_groups    = [aws_security_group.balancer.id]
  # A long poll is silent for up to a minute, an event stream for fifteen seconds.
  idle_timeout               = local.deregistration_delay
  drop_invalid_header_fields = true
  enable_deletion_protection = var.is_protected
  tags                       = var.tags

  dynamic "access_logs" {
    for_each = var.access_log_bucket[*]

    content {
      enabled = true
      bucket  = access_logs.value
      prefix  = var.name
    }
  }

  lifecycle {
    precondition {
      condition     = length(var.subnet_ids) >= 2
      error_message = "subnet_ids must name at least two subnets for gateways: a load balancer needs two zones, and the service should survive the loss of one."
    }
  }
}

resource "aws_lb_target_group" "gateway" {
  name                          = "${var.name}-${local.is_tls_inside ? "tls" : "gateway"}"
  vpc_id                        = var.vpc_id
  target_type                   = "ip"
  protocol                      = local.is_tls_inside ? "HTTPS" : "HTTP"
  port                          = local.port
  deregistration_delay          = local.deregistration_delay
  load_balancing_algorithm_type = "least_outstanding_requests"
  tags                          = var.tags

  health_check {
    protocol            = "HTTP"
    path                = "/readyz"
    port                = tostring(local.operations_port)
    matcher             = "200"
    interval            = local.health_interval
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }

  lifecycle {
    # Another protocol needs another group: the listener moves to it before the old one is deleted.
    create_before_destroy = true
  }
}

resource "aws_lb_listener" "plain" {
  count             = local.is_tls ? 0 : 1
  load_balancer_arn = aws_lb.this.arn
  protocol          = "HTTP"
  port              = local.listener_port
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.gateway.arn
  }
}

resource "aws_lb_listener" "tls" {
  count             = local.is_tls ? 1 : 0
  load_balancer_arn = aws_lb.this.arn
  protocol          = "HTTPS"
  port              = local.listener_port
  certificate_arn   = var.certificate_arn
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.gateway.arn
  }
}
