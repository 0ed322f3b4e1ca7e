# An option (kafka_port): where Kafka's clients begin. They are told each task's own address and go there by themselves, so the
# gateways take them from client_cidrs as well.

resource "aws_vpc_security_group_ingress_rule" "kafka_clients" {
  for_each          = local.has_kafka ? toset(var.client_cidrs) : toset([])
  security_group_id = module.task.security_group_id
  description       = "Kafka's clients."
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = var.kafka_port
  to_port           = var.kafka_port
}

resource "aws_vpc_security_group_ingress_rule" "kafka_balancer" {
  count                        = local.has_kafka ? 1 : 0
  security_group_id            = module.task.security_group_id
  description                  = "The load balancer of Kafka's clients."
  referenced_security_group_id = aws_security_group.kafka[0].id
  ip_protocol                  = "tcp"
  from_port                    = var.kafka_port
  to_port                      = var.kafka_port
}

resource "aws_security_group" "kafka" {
  count       = local.has_kafka ? 1 : 0
  name        = "${var.name}-kafka"
  description = "Kafka's clients of the gateways."
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "kafka_bootstrap" {
  for_each          = local.has_kafka ? toset(var.client_cidrs) : toset([])
  security_group_id = aws_security_group.kafka[0].id
  description       = "Kafka's clients."
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = var.kafka_port
  to_port           = var.kafka_port
}

resource "aws_vpc_security_group_egress_rule" "kafka_to_gateways" {
  count                        = local.has_kafka ? 1 : 0
  security_group_id            = aws_security_group.kafka[0].id
  description                  = "Connections, and health checks by them."
  referenced_security_group_id = module.task.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = var.kafka_port
  to_port                      = var.kafka_port
}

resource "aws_lb" "kafka" {
  count                      = local.has_kafka ? 1 : 0
  name                       = "${var.name}-kafka"
  internal                   = var.is_internal
  load_balancer_type         = "network"
  subnets                    = var.subnet_ids
  security_groups            = [aws_security_group.kafka[0].id]
  enable_deletion_protection = var.is_protected
  tags                       = var.tags
}

resource "aws_lb_target_group" "kafka" {
  count                = local.has_kafka ? 1 : 0
  name                 = "${var.name}-kafka"
  vpc_id               = var.vpc_id
  target_type          = "ip"
  protocol             = "TCP"
  port                 = var.kafka_port
  deregistration_delay = local.deregistration_delay
  tags                 = var.tags

  health_check {
    protocol            = "TCP"
    interval            = local.health_interval
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

resource "aws_lb_listener" "kafka" {
  count             = local.has_kafka ? 1 : 0
  load_balancer_arn = aws_lb.kafka[0].arn
  protocol          = "TCP"
  port              = var.kafka_port
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.kafka[0].arn
  }
}
