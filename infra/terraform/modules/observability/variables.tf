variable "gateway_log_group_name" {
  description = "The gateways' log, as the module gateway outputs it: a line for each request that log_requests names."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._/#-]+$", var.gateway_log_group_name))
    error_message = "gateway_log_group_name must be the name of a log group."
  }
}

variable "maintenance_log_group_name" {
  description = "Maintenance's log, as the module maintenance outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._/#-]+$", var.maintenance_log_group_name))
    error_message = "maintenance_log_group_name must be the name of a log group."
  }
}

variable "cluster_name" {
  description = "The ECS cluster, as the module gateway outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]+$", var.cluster_name))
    error_message = "cluster_name must be a name, not an ARN."
  }
}

variable "gateway_service_name" {
  description = "The gateways' ECS service, as the module gateway outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]+$", var.gateway_service_name))
    error_message = "gateway_service_name must be a name, not an ARN."
  }
}

variable "balancer_arn_suffix" {
  description = "The load balancer, as the module gateway outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^app/[^/]+/[0-9a-f]+$", var.balancer_arn_suffix))
    error_message = "balancer_arn_suffix must be the end of the load balancer's ARN, app/..."
  }
}

variable "target_group_arn_suffix" {
  description = "The target group, as the module gateway outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^targetgroup/[^/]+/[0-9a-f]+$", var.target_group_arn_suffix))
    error_message = "target_group_arn_suffix must be the end of the target group's ARN, targetgroup/..."
  }
}

variable "has_collector" {
  description = "Whether gateways have a collector (collector_image of the module gateway): without one the lag of consumers is not measured."
  type        = bool
  default     = false
  nullable    = false
}

variable "consumer_lag_seconds_max" {
  description = "Age of the oldest record that a consumer group has not read, seconds, above which the alarm fires."
  type        = number
  default     = 900
  nullable    = false

  validation {
    condition     = var.consumer_lag_seconds_max >= 60
    error_message = "consumer_lag_seconds_max must be at least 60: it is measured every half minute."
  }
}

variable "emails" {
  description = "Mail addresses that get alarms; each must confirm AWS's first mail."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "emails must be mail addresses."
  }
}

variable "acknowledgement_ms_max" {
  description = "How long one in a hundred produce requests may take, ms. flush.ms is part of it. Measured where log_requests is \"all\"."
  type        = number
  default     = 2000
  nullable    = false

  validation {
    condition     = var.acknowledgement_ms_max > 0
    error_message = "acknowledgement_ms_max must be positive."
  }
}

variable "refusals_max" {
  description = "Refused requests in five minutes without an alarm."
  type        = number
  default     = 50
  nullable    = false

  validation {
    condition     = var.refusals_max >= 0
    error_message = "refusals_max must not be negative."
  }
}

variable "orphans_max" {
  description = "Orphaned segments collected in a day without an alarm. Each was an upload whose commit failed."
  type        = number
  default     = 1000
  nullable    = false

  validation {
    condition     = var.orphans_max >= 0
    error_message = "orphans_max must not be negative."
  }
}

variable "waiting_segments_max" {
  description = "Flushed segments, of all topics, that may wait to be merged when a round of maintenance has ended."
  type        = number
  default     = 50000
  nullable    = false

  validation {
    condition     = var.waiting_segments_max >= 1000
    error_message = "waiting_segments_max must be at least 1000: some always wait for more of their kind."
  }
}

variable "daily_usd_max" {
  description = "US dollars a day above which emails get a message; null: no budget."
  type        = number
  default     = null

  validation {
    condition     = var.daily_usd_max == null ? true : var.daily_usd_max > 0
    error_message = "daily_usd_max must be positive, or null."
  }
}
