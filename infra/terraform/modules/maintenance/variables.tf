variable "runs_on" {
  description = "fargate: one task, round after round; or emr: rounds on EMR Serverless by a schedule, as wide as vcpu_max lets them be."
  type        = string
  default     = "fargate"
  nullable    = false

  validation {
    condition     = contains(["fargate", "emr"], var.runs_on)
    error_message = "runs_on must be fargate or emr."
  }
}

variable "cluster_arn" {
  description = "The ECS cluster, as the module gateway outputs it; null on EMR."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_arn == null ? true : can(regex("^arn:aws[a-z-]*:ecs:[a-z0-9-]+:[0-9]{12}:cluster/.+$", var.cluster_arn))
    error_message = "cluster_arn must be the ARN of an ECS cluster."
  }
}

variable "every_seconds" {
  description = "A round so often, seconds: 60 on Fargate, 600 on EMR when null. More often: fewer small segments, and more requests."
  type        = number
  default     = null

  validation {
    condition     = var.every_seconds == null ? true : var.every_seconds >= 10 && var.every_seconds <= 3000 && floor(var.every_seconds) == var.every_seconds
    error_message = "every_seconds must be a whole number from 10 to 3000: the alarm misses a round after an hour."
  }
}

variable "release_label" {
  description = "EMR's release, on EMR: emr-spark-8.0.0 (Spark 4.0) or newer, and the one that the image was built on."
  type        = string
  default     = "emr-spark-8.0.0"
  nullable    = false

  validation {
    condition     = can(regex("^emr-spark-([89]|[1-9][0-9])\\.[0-9]+\\.[0-9]+$", var.release_label))
    error_message = "release_label must be emr-spark-8.0.0 or newer: maintenance needs Spark 4."
  }
}
