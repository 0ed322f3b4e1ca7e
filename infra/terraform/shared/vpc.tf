# The network, of every program.

variable "vpc_id" {
  description = "The network."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id must be the id of a network, vpc-..."
  }
}
