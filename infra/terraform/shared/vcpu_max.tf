# The bound of what runs on EMR Serverless.

variable "vcpu_max" {
  description = "Cores of all executors and drivers together, on EMR: the bound of the bill. Each has 4 GB of memory for maintenance, 8 GB for jobs."
  type        = number
  default     = 16
  nullable    = false

  validation {
    condition     = var.vcpu_max >= 4 && var.vcpu_max <= 400 && floor(var.vcpu_max) == var.vcpu_max
    error_message = "vcpu_max must be a whole number from 4 to 400."
  }
}
