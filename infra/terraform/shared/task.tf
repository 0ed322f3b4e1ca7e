# What a gateway and maintenance are given, as tasks on Fargate or on EMR.

variable "image" {
  description = "The image, with a tag or digest that never changes, from infra/docker: gateway.Dockerfile for gateways, spark.Dockerfile for maintenance on Fargate, emr.Dockerfile on EMR."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9./:_-]*(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "image must name a tag or a digest, and not latest: a restart must not bring another version."
  }
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories that Fargate pulls images from."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.repository_arns) > 0 && alltrue([for arn in var.repository_arns : can(regex("^arn:aws[a-z-]*:ecr:[a-z0-9-]+:[0-9]{12}:repository/[a-z0-9._/-]+$", arn))])
    error_message = "repository_arns must be ARNs of ECR repositories, without wildcards."
  }
}

variable "store_uri" {
  description = "The store, as the module storage outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^s3://[a-z0-9-]+/.+$", var.store_uri))
    error_message = "store_uri must be s3://bucket/prefix."
  }
}

variable "assign_public_ip" {
  description = "Whether tasks get public addresses: the only way to their image in a network without endpoints and NAT."
  type        = bool
  default     = false
  nullable    = false
}

variable "cpu" {
  description = "CPU units of a task on Fargate; 1024 are one core. A gateway uses little more than one, merging uses one."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.cpu)
    error_message = "cpu must be 256, 512, 1024, 2048 or 4096."
  }
}

variable "memory_mib" {
  description = "Memory of a task on Fargate, MiB. A gateway and its reader of history take 960 at most with the default settings, TLS and rights 64 each, the collector 256. Merging holds a few segments of 128 MiB."
  type        = number
  default     = 2048
  nullable    = false

  validation {
    condition     = var.memory_mib >= 1024
    error_message = "memory_mib must be at least 1024."
  }
}

variable "cpu_architecture" {
  description = "X86_64 or ARM64, as the image was built for: a gateway's, or maintenance's on EMR."
  type        = string
  default     = "X86_64"
  nullable    = false

  validation {
    condition     = contains(["X86_64", "ARM64"], var.cpu_architecture)
    error_message = "cpu_architecture must be X86_64 or ARM64."
  }
}

variable "log_retention_days" {
  description = "How long logs are kept, days; null: 14 for gateways, 30 for maintenance."
  type        = number
  default     = null

  validation {
    condition     = var.log_retention_days == null ? true : contains([1, 3, 5, 7, 14, 30, 60, 90, 180, 365], var.log_retention_days)
    error_message = "log_retention_days must be 1, 3, 5, 7, 14, 30, 60, 90, 180 or 365."
  }
}
