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

variable "region" {
  description = "Region of the bucket and of the gateways."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be the name of a region, such as eu-central-1."
  }
}

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

variable "image" {
  description = "The image, with a tag or digest that never changes: infra/docker/spark.Dockerfile's for Fargate, emr.Dockerfile's for EMR."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "image must name a tag or a digest, and not latest: a restart must not bring another version."
  }
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories that the images are pulled from, by Fargate."
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

variable "store_policy" {
  description = "What maintenance may do in the bucket: maintenance_policy of the module access."
  type        = string
  nullable    = false

  validation {
    condition     = can(jsondecode(var.store_policy).Statement)
    error_message = "store_policy must be a policy document in JSON."
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

variable "vpc_id" {
  description = "The network."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id must be the id of a network, vpc-..."
  }
}

variable "subnet_ids" {
  description = "Subnets of the network with a way to the bucket (a gateway endpoint)."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) >= 1
    error_message = "subnet_ids must name a subnet."
  }
}

variable "assign_public_ip" {
  description = "Whether tasks get public addresses: the only way to their image in a network without endpoints and NAT."
  type        = bool
  default     = false
  nullable    = false
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

variable "vcpu_max" {
  description = "Cores of all executors and the driver together, on EMR: the bound of the bill. Each has 4 GB of memory."
  type        = number
  default     = 16
  nullable    = false

  validation {
    condition     = var.vcpu_max >= 4 && var.vcpu_max <= 400 && floor(var.vcpu_max) == var.vcpu_max
    error_message = "vcpu_max must be a whole number from 4 to 400."
  }
}

variable "cpu_architecture" {
  description = "X86_64 or ARM64, as the image was built for, on EMR."
  type        = string
  default     = "X86_64"
  nullable    = false

  validation {
    condition     = contains(["X86_64", "ARM64"], var.cpu_architecture)
    error_message = "cpu_architecture must be X86_64 or ARM64."
  }
}

variable "cpu" {
  description = "CPU units of the task, on Fargate; 1024 are one core, and merging uses one."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.cpu)
    error_message = "cpu must be 256, 512, 1024, 2048 or 4096."
  }
}

variable "memory_mib" {
  description = "Memory of the task, MiB, on Fargate. Merging holds a few segments of 128 MiB."
  type        = number
  default     = 2048
  nullable    = false

  validation {
    condition     = var.memory_mib >= 1024
    error_message = "memory_mib must be at least 1024."
  }
}

variable "log_retention_days" {
  description = "How long the log of maintenance is kept, days."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 180, 365], var.log_retention_days)
    error_message = "log_retention_days must be 1, 3, 5, 7, 14, 30, 60, 90, 180 or 365."
  }
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
  nullable    = false
}
