variable "zones" {
  description = "Availability zones, two to four: gateways stand in all of them."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.zones) >= 2 && length(var.zones) <= 4 && length(distinct(var.zones)) == length(var.zones)
    error_message = "zones must be two to four different zones."
  }
}

variable "cidr" {
  description = "Addresses of the network, /16 to /20."
  type        = string
  default     = "10.20.0.0/16"
  nullable    = false

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && try(tonumber(split("/", var.cidr)[1]), 0) >= 16 && try(tonumber(split("/", var.cidr)[1]), 99) <= 20
    error_message = "cidr must be an IPv4 network between /16 and /20."
  }
}

variable "is_private" {
  description = "Whether nothing in the network has a way to the internet. Costs four interface endpoints in each zone: images, logs, secrets."
  type        = bool
  default     = true
  nullable    = false
}

variable "has_fast_bucket" {
  description = "Whether there is a directory bucket, which has an endpoint of its own."
  type        = bool
  default     = false
  nullable    = false
}

variable "flow_log_bucket_arn" {
  description = "ARN of a bucket, with a path if need be, that takes flow logs, and whose policy lets delivery.logs.amazonaws.com write there; null: none."
  type        = string
  default     = null

  validation {
    condition     = var.flow_log_bucket_arn == null ? true : can(regex("^arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$", var.flow_log_bucket_arn))
    error_message = "flow_log_bucket_arn must be the ARN of a bucket."
  }
}
