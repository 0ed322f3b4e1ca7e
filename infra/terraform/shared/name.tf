# The name, of every module that makes something beside the bucket.

variable "name" {
  description = "Prefix of the names of everything that is made: a letter, then up to 20 letters, digits and dashes."
  type        = string
  default     = "tidelog"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,19}[a-z0-9]$", var.name))
    error_message = "name must be 2 to 21 lower-case letters, digits and dashes: load balancers' names are short."
  }
}
