variable "name" {
  description = "Name of the application, and prefix of its schedule's role."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.name) <= 55
    error_message = "name must have 55 characters at most: names of roles are short."
  }
}

variable "release_label" {
  description = "EMR's release."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.release_label, "emr-")
    error_message = "release_label must be a release of EMR, emr-..."
  }
}

variable "architecture" {
  description = "X86_64 or ARM64."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "architecture must be X86_64 or ARM64."
  }
}

variable "image" {
  description = "Image of drivers and executors; null: EMR's own."
  type        = string
  default     = null

  validation {
    condition     = var.image != ""
    error_message = "image must have a name, or be null."
  }
}

variable "vcpu_gb" {
  description = "Memory for each core of vcpu_max, GB."
  type        = number
  nullable    = false

  validation {
    condition     = var.vcpu_gb >= 2 && var.vcpu_gb <= 8
    error_message = "vcpu_gb must be from 2 to 8."
  }
}

variable "security_group_id" {
  description = "Security group of drivers and executors."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.security_group_id) > 0
    error_message = "security_group_id must be the id of a security group."
  }
}

variable "role_arn" {
  description = "Role that jobs run as."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.role_arn, "arn:")
    error_message = "role_arn must be the ARN of a role."
  }
}

variable "jobs" {
  description = "Scheduled runs by name: the schedule's name and when (rate, cron or at), the longest time, what is run with which arguments and settings of Spark, tries after a failure, and where the driver's output goes (null: nowhere)."
  type = map(object({
    schedule_name   = string
    schedule        = string
    timeout_minutes = number
    entry_point     = string
    arguments       = list(string)
    spark           = map(string)
    retries         = number
    log_group_name  = optional(string)
  }))
  nullable = false

  validation {
    condition     = alltrue([for job in values(var.jobs) : job.timeout_minutes >= 5 && job.retries >= 0])
    error_message = "timeout_minutes must be at least 5, and retries not negative."
  }
}
