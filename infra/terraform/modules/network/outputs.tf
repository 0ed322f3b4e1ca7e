output "vpc_id" {
  description = "The network."
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "One subnet in each zone."
  value       = aws_subnet.this[*].id
}

output "cidr" {
  description = "Addresses of the network."
  value       = var.cidr
}
