# The subnets, of every program.

variable "subnet_ids" {
  description = "Subnets of the network with a way to the bucket (a gateway endpoint)."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) >= 1
    error_message = "subnet_ids must name a subnet."
  }
}
