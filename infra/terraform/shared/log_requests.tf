# What gateways log, and so what can be measured from their logs.

variable "log_requests" {
  description = "Requests that are a line each in the gateways' logs: \"failures\" (status 400 and above), or \"all\". At 100 MiB/s all of them cost 877 $ a month. The alarm acknowledgement-slow needs them."
  type        = string
  default     = "failures"
  nullable    = false

  validation {
    condition     = contains(["all", "failures"], var.log_requests)
    error_message = "log_requests must be \"all\" or \"failures\"."
  }
}
