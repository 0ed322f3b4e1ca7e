variable "release_label" {
  description = "EMR's release: decides the versions of Spark and Delta Lake."
  type        = string
  default     = "emr-spark-8.0.0"
  nullable    = false

  validation {
    condition     = can(regex("^emr-(7|spark-[89]|spark-[1-9][0-9])\\.[0-9]+\\.[0-9]+$", var.release_label))
    error_message = "release_label must be emr-7.0.0, emr-spark-8.0.0, or newer."
  }
}

variable "scripts_bucket" {
  description = "Bucket of the jobs' scripts, checkpoints and results; not the log's."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.scripts_bucket)) && !strcontains(var.store_policy, "arn:aws:s3:::${var.scripts_bucket}/")
    error_message = "scripts_bucket must be the name of a bucket, and not the log's: jobs delete in it."
  }
}

variable "scripts_prefix" {
  description = "Where in it the scripts lie, which jobs only read."
  type        = string
  default     = "scripts"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.scripts_prefix))
    error_message = "scripts_prefix must be names separated by slashes, without slashes at its ends."
  }
}

variable "results_prefix" {
  description = "Where in it jobs write checkpoints and results."
  type        = string
  default     = "results"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.results_prefix))
    error_message = "results_prefix must be names separated by slashes, without slashes at its ends."
  }
}

variable "jobs" {
  description = "Scheduled runs by name: script below scripts_prefix, its arguments, when (rate or cron), and the longest time."
  type = map(object({
    script          = string
    arguments       = optional(list(string), [])
    schedule        = string
    timeout_minutes = optional(number, 60)
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for job in values(var.jobs) : can(regex("^(rate|cron|at)\\(.+\\)$", job.schedule)) && job.timeout_minutes >= 5])
    error_message = "Each schedule must be rate(...), cron(...) or at(...), and timeout_minutes at least 5."
  }
}
