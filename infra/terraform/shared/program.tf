# What every program is given: its place in the network, and what it may do in the store.

variable "vpc_id" {
  description = "The network."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id must be the id of a network, vpc-..."
  }
}

variable "subnet_ids" {
  description = "Subnets of the network with a way to the bucket (a gateway endpoint)."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) >= 1
    error_message = "subnet_ids must name a subnet."
  }
}

variable "store_policy" {
  description = "What the program may do in the log's bucket, as the module access outputs it: gateway_policy, maintenance_policy; for jobs reader_policy, or writer_policy if they append to topics."
  type        = string
  nullable    = false

  validation {
    condition     = can(jsondecode(var.store_policy).Statement)
    error_message = "store_policy must be a policy document in JSON."
  }
}
