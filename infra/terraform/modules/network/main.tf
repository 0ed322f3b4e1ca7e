# A network for gateways and jobs in several zones. The bucket is reached by a gateway endpoint, which costs nothing: no byte of
# the log passes a NAT. There is no NAT at all: with is_private, images, logs and secrets come by interface endpoints.

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_hostnames = true
  enable_dns_support   = true
  tags                 = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "this" {
  count                   = length(var.zones)
  vpc_id                  = aws_vpc.this.id
  availability_zone       = var.zones[count.index]
  cidr_block              = cidrsubnet(var.cidr, 4, count.index)
  map_public_ip_on_launch = false
  tags                    = merge(var.tags, { Name = "${var.name}-${var.zones[count.index]}" })
}

resource "aws_route_table" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route_table_association" "this" {
  count          = length(var.zones)
  subnet_id      = aws_subnet.this[count.index].id
  route_table_id = aws_route_table.this.id
}

resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.this.id]
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}

resource "aws_vpc_endpoint" "s3express" {
  count             = var.has_fast_bucket ? 1 : 0
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${var.region}.s3express"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.this.id]
  tags              = merge(var.tags, { Name = "${var.name}-s3express" })
}

resource "aws_internet_gateway" "this" {
  count  = var.is_private ? 0 : 1
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route" "internet" {
  count                  = var.is_private ? 0 : 1
  route_table_id         = aws_route_table.this.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_security_group" "endpoints" {
  count       = var.is_private ? 1 : 0
  name        = "${var.name}-endpoints"
  description = "Interface endpoints, from inside the network."
  vpc_id      = aws_vpc.this.id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  count             = var.is_private ? 1 : 0
  security_group_id = aws_security_group.endpoints[0].id
  description       = "TLS from the network."
  cidr_ipv4         = var.cidr
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_endpoint" "interface" {
  for_each            = var.is_private ? toset(["ecr.api", "ecr.dkr", "logs", "secretsmanager"]) : toset([])
  vpc_id              = aws_vpc.this.id
  service_name        = "com.amazonaws.${var.region}.${each.key}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = aws_subnet.this[*].id
  security_group_ids  = [aws_security_group.endpoints[0].id]
  tags                = merge(var.tags, { Name = "${var.name}-${each.key}" })
}

# Flow logs: source and destination of each connection, one object every ten minutes.
resource "aws_flow_log" "this" {
  count                = var.flow_log_bucket_arn == null ? 0 : 1
  vpc_id               = aws_vpc.this.id
  traffic_type         = "ALL"
  log_destination_type = "s3"
  log_destination      = var.flow_log_bucket_arn
  tags                 = merge(var.tags, { Name = var.name })
}
