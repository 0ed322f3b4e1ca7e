# Where AWS's other services are found.

variable "region" {
  description = "Region of everything, as of the bucket."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be the name of a region, such as eu-central-1."
  }
}
