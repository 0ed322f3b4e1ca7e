# terraform test, without credentials or network: the service drains longer than a poll, and is not public by accident.
mock_provider "aws" {
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:test" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/test" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/test/0123456789abcdef" }
  }
  mock_resource "aws_lb_target_group" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/test/0123456789abcdef" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:123456789012:task-definition/test:1" }
  }
  mock_resource "aws_ecs_cluster" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:123456789012:cluster/test" }
  }
}

variables {
  region          = "eu-central-1"
  image           = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/tidelog-gateway:0.1.0"
  repository_arns = ["arn:aws:ecr:eu-central-1:123456789012:repository/tidelog-gateway"]
  store_uri       = "s3://bucket/log"
  store_policy    = "{\"Version\": \"2012-10-17\", \"Statement\": []}"
  vpc_id          = "vpc-0123456789abcdef0"
  subnet_ids      = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  client_cidrs    = ["10.0.0.0/8"]

  certificate_arn            = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000"
  host_name                  = "log.example.com"
  cluster_key_secret_arn     = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-key-AbCdEf"
  bootstrap_token_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-token-AbCdEf"
}

run "draining" {
  command = apply

  assert {
    condition     = tonumber(aws_lb_target_group.gateway.deregistration_delay) > output.drain.longest_poll_seconds
    error_message = "The load balancer must let a longest poll end."
  }

  assert {
    condition     = aws_lb.this.idle_timeout > output.drain.longest_poll_seconds
    error_message = "A long poll must not be cut while it is silent."
  }

  assert {
    condition     = tonumber({ for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["TIDELOG_HEADER_IDLE_MS"]) > aws_lb.this.idle_timeout * 1000
    error_message = "A silent connection must be closed by the load balancer, not by a gateway that it may just be sending to."
  }

  assert {
    condition     = output.drain.drain_seconds < jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].stopTimeout
    error_message = "A task must not be killed before it has drained."
  }

  assert {
    condition     = aws_lb_target_group.gateway.health_check[0].path == "/readyz"
    error_message = "Only a gateway that can serve may be sent requests."
  }

  assert {
    condition = (
      aws_lb_target_group.gateway.health_check[0].port == { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["TIDELOG_OPS_PORT"]
      && aws_lb_target_group.gateway.health_check[0].port == tostring(aws_vpc_security_group_ingress_rule.health_from_balancer.to_port)
      && aws_lb_target_group.gateway.health_check[0].port == tostring(aws_vpc_security_group_egress_rule.health_of_gateways.to_port)
    )
    error_message = "Health checks must use the port that clients can't fill, and must be let in there."
  }

  assert {
    condition     = aws_lb.this.internal && length(aws_lb_listener.plain) == 0
    error_message = "Without being told otherwise the load balancer is internal, and tokens come to it by TLS alone."
  }

  assert {
    condition     = alltrue([for container in jsondecode(aws_ecs_task_definition.gateway.container_definitions) : container.readonlyRootFilesystem])
    error_message = "Containers must not write to their image."
  }

  assert {
    condition     = length(aws_lb.this.access_logs) == 0
    error_message = "Access logs are by choice."
  }

  assert {
    condition     = length(aws_appautoscaling_policy.in_flight_bytes) == 0
    error_message = "Without a collector bytes in flight are not measured."
  }
}

run "with_a_collector_and_a_certificate" {
  command = apply

  variables {
    collector_image = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/collector:v1"
    certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000"
    # By choice, as a certificate is.
    access_log_bucket = "logs"
  }

  assert {
    condition     = aws_lb.this.access_logs[0].enabled && aws_lb.this.access_logs[0].bucket == "logs"
    error_message = "Access logs go where they should."
  }

  assert {
    condition     = length(aws_appautoscaling_policy.in_flight_bytes) == 1 && length(jsondecode(aws_ecs_task_definition.gateway.container_definitions)) == 2
    error_message = "With a collector the service scales by bytes in flight."
  }

  assert {
    condition     = length(aws_lb_listener.plain) == 0 && aws_lb_listener.tls[0].port == 443
    error_message = "With a certificate there is HTTPS and nothing else."
  }

  assert {
    condition = alltrue([
      for each in concat(jsondecode(module.task.execution_policy).Statement, jsondecode(aws_iam_role_policy.measurements[0].policy).Statement) :
      alltrue([for action in flatten([each.Action]) : !strcontains(action, "*")])
      && (each.Action == "ecr:GetAuthorizationToken" || alltrue([for resource in flatten([each.Resource]) : startswith(resource, "arn:") && !endswith(resource, ":::*")]))
    ])
    error_message = "No role may do everything, or anywhere: only the permission for a registry token can't be limited to a resource."
  }

  assert {
    condition     = aws_ecs_task_definition.gateway.memory >= sum([for container in jsondecode(aws_ecs_task_definition.gateway.container_definitions) : container.memory])
    error_message = "A task must have the memory of its containers."
  }
}

run "with_a_secret_it_is_tls_to_the_gateways" {
  variables {
    tls_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-tls-AbCdEf"
    tls_name       = "gateways.tidelog.internal"
  }

  assert {
    condition     = aws_lb_target_group.gateway.protocol == "HTTPS" && aws_lb_target_group.gateway.health_check[0].protocol == "HTTP"
    error_message = "The load balancer must speak TLS to the clients' port, and ask the operations' port plainly."
  }

  assert {
    condition     = { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].secrets : each.name => each.valueFrom }["GATEWAY_TLS_PEM"] == "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-tls-AbCdEf"
    error_message = "The certificate must come from the secret."
  }

  assert {
    condition     = contains([for each in jsondecode(module.task.execution_policy).Statement : each.Sid], "ReadSecrets")
    error_message = "The task can't start without its secret."
  }
}

run "every_request_needs_a_token" {
  command = apply

  assert {
    condition = (
      { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["TIDELOG_AUTH"] == "on"
      && !contains([for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name], "TIDELOG_INSECURE")
    )
    error_message = "Without being told otherwise gateways ask for tokens."
  }

  assert {
    condition = { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].secrets : each.name => each.valueFrom } == {
      GATEWAY_BOOTSTRAP_TOKEN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-token-AbCdEf"
      GATEWAY_CLUSTER_KEY     = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-key-AbCdEf"
    }
    error_message = "Token and key must come from their secrets."
  }

  assert {
    condition = [for each in jsondecode(module.task.execution_policy).Statement : each.Resource if each.Sid == "ReadSecrets"] == [[
      "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-key-AbCdEf",
      "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-token-AbCdEf",
    ]]
    error_message = "The task may read its secrets, and no others."
  }
}

run "people_log_in_at_the_issuer" {
  command = plan

  variables {
    oidc = { issuer = "https://issuer.example.com", audience = "tidelog", client_id = "console" }
  }

  assert {
    condition = { for name, value in local.access : name => value if startswith(name, "TIDELOG_OIDC_") } == {
      TIDELOG_OIDC_ISSUER    = "https://issuer.example.com"
      TIDELOG_OIDC_AUDIENCE  = "tidelog"
      TIDELOG_OIDC_CLIENT_ID = "console"
    }
    error_message = "The console offers a login with the client's id."
  }
}

run "programs_may_have_an_issuer_and_people_none" {
  command = plan

  variables {
    oidc = { issuer = "https://issuer.example.com", audience = "tidelog" }
  }

  assert {
    condition     = !contains(keys(local.access), "TIDELOG_OIDC_CLIENT_ID") && local.access["TIDELOG_OIDC_AUDIENCE"] == "tidelog"
    error_message = "Without a client's id the console offers no login."
  }
}

run "no_authentication_is_asked_for_by_name" {
  command = apply

  variables {
    auth                       = "off"
    cluster_key_secret_arn     = null
    bootstrap_token_secret_arn = null
    certificate_arn            = null
  }

  assert {
    condition     = length(aws_lb_listener.tls) == 0 && aws_lb_listener.plain[0].port == 80
    error_message = "Without tokens there may be plain HTTP."
  }

  assert {
    condition     = { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["TIDELOG_INSECURE"] == "true"
    error_message = "A gateway without authentication starts only when it is told that this is meant."
  }

  assert {
    condition     = { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["TIDELOG_ALLOWED_HOSTS"] == "${aws_lb.this.dns_name},log.example.com"
    error_message = "Without tokens a web page whose name resolves to the load balancer must be refused by its Host."
  }

  assert {
    condition     = !contains([for each in jsondecode(module.task.execution_policy).Statement : each.Sid], "ReadSecrets")
    error_message = "Without secrets there is nothing to read."
  }
}

run "authentication_without_a_cluster_key_is_refused" {
  command = plan

  variables {
    cluster_key_secret_arn = null
    auth                   = "on"
    super_users            = ["alice"]
    oidc                   = { issuer = "http://issuer.example.com", audience = "tidelog", client_id = "" }
  }

  expect_failures = [var.cluster_key_secret_arn, var.super_users, var.oidc]
}

run "tokens_over_plain_http_are_refused" {
  command = plan

  variables {
    certificate_arn = null
  }

  expect_failures = [var.auth]
}

run "half_of_tls_is_refused" {
  command = plan

  variables {
    tls_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-tls-AbCdEf"
  }

  expect_failures = [var.tls_name]
}

run "a_name_that_no_certificate_has_is_refused" {
  command = plan

  variables {
    host_name = null
  }

  expect_failures = [var.host_name]
}

run "tokens_of_kafkas_clients_over_plain_connections_are_refused" {
  command = plan

  variables {
    kafka_port = 9092
  }

  expect_failures = [var.kafka_port]
}

run "the_whole_internet_is_refused" {
  command = plan

  variables {
    client_cidrs = ["0.0.0.0/0"]
  }

  expect_failures = [var.client_cidrs]
}

run "the_whole_internet_in_halves_is_refused" {
  command = plan

  variables {
    client_cidrs = ["0.0.0.0/1", "128.0.0.0/1"]
  }

  expect_failures = [var.client_cidrs]
}

run "half_of_the_internet_in_quarters_is_refused" {
  command = plan

  variables {
    client_cidrs = ["10.0.0.0/8", "64.0.0.0/2", "128.0.0.0/2"]
  }

  expect_failures = [var.client_cidrs]
}

run "the_whole_internet_of_ipv6_is_refused" {
  command = plan

  variables {
    client_cidrs = ["::/0"]
  }

  expect_failures = [var.client_cidrs]
}

run "a_machine_in_place_of_a_network_is_refused" {
  command = plan

  variables {
    client_cidrs = ["198.51.100.7/24"]
  }

  expect_failures = [var.client_cidrs]
}

run "all_private_networks_are_let_in" {
  command = plan

  variables {
    client_cidrs = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.51.100.7/32"]
  }

  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.clients) == 5
    error_message = "Each network is a rule."
  }
}

run "a_certificate_that_is_a_placeholder_is_refused" {
  command = plan

  variables {
    certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/…"
  }

  expect_failures = [var.certificate_arn]
}

run "secrets_that_are_placeholders_are_refused" {
  command = plan

  variables {
    cluster_key_secret_arn     = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-key-…"
    bootstrap_token_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-token-…"
  }

  expect_failures = [var.cluster_key_secret_arn, var.bootstrap_token_secret_arn]
}

run "a_tag_that_moves_and_names_in_place_of_ids_are_refused" {
  command = plan

  variables {
    image           = "tidelog-gateway:latest"
    collector_image = "collector"
    region          = "Frankfurt"
    vpc_id          = "main"
    certificate_arn = "example.com"
  }

  expect_failures = [var.image, var.collector_image, var.region, var.vpc_id, var.certificate_arn]
}

run "images_and_repositories_that_are_placeholders_are_refused" {
  command = plan

  variables {
    image           = "<account>.dkr.ecr.eu-central-1.amazonaws.com/tidelog-gateway:0.1.0"
    repository_arns = ["arn:aws:ecr:eu-central-1:<account>:repository/tidelog-gateway"]
  }

  expect_failures = [var.image, var.repository_arns]
}

run "one_subnet_is_refused" {
  command = plan

  variables {
    subnet_ids = ["subnet-0123456789abcdef0"]
  }

  expect_failures = [aws_lb.this]
}

run "without_kafka" {
  command = apply

  assert {
    condition     = length(aws_lb.kafka) == 0 && length(aws_vpc_security_group_ingress_rule.kafka_clients) == 0 && output.kafka_bootstrap == null
    error_message = "The listener for Kafka's clients is off unless a port is named."
  }
}

run "with_kafka" {
  command = apply

  variables {
    kafka_port     = 9092
    tls_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidelog-tls-AbCdEf"
    tls_name       = "gateways.tidelog.internal"
  }

  assert {
    condition     = { for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].environment : each.name => each.value }["GATEWAY_KAFKA_PORT"] == "9092"
    error_message = "The gateway must listen for Kafka's clients."
  }

  assert {
    condition     = [for each in jsondecode(aws_ecs_task_definition.gateway.container_definitions)[0].portMappings : each.containerPort] == [8080, 9092] && length(aws_ecs_service.gateway.load_balancer) == 2
    error_message = "The load balancer of Kafka's clients must reach the gateways."
  }

  assert {
    condition     = aws_lb.kafka[0].internal && alltrue([for each in aws_vpc_security_group_ingress_rule.kafka_clients : each.cidr_ipv4 == "10.0.0.0/8"])
    error_message = "Kafka's clients come from the same networks as all others."
  }
}

run "kafka_without_tokens_needs_no_tls" {
  command = plan

  variables {
    auth       = "off"
    kafka_port = 9092
  }

  assert {
    condition     = length(aws_lb.kafka) == 1
    error_message = "Without tokens nothing secret passes in plain text."
  }
}
