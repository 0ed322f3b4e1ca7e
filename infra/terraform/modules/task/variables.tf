variable "program" {
  description = "What runs: gateway, maintenance or job. Its role and its log are named by it."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["gateway", "maintenance", "job"], var.program)
    error_message = "program must be gateway, maintenance or job."
  }
}

variable "runs_on" {
  description = "fargate or emr."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["fargate", "emr"], var.runs_on)
    error_message = "runs_on must be fargate or emr."
  }
}

variable "security_group" {
  description = "End of the security group's name, and its description: another description is another group."
  type        = object({ suffix = string, description = string })
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+$", var.security_group.suffix)) && length(var.security_group.description) > 0
    error_message = "security_group must have a suffix of lower-case letters, and a description."
  }
}

variable "log_days" {
  description = "How long the log is kept, days; null: there is no log."
  type        = number
  default     = null

  validation {
    condition     = var.log_days == null ? true : var.log_days > 0
    error_message = "log_days must be positive."
  }
}

variable "images_arns" {
  description = "ARNs of the repositories that the task's images are pulled from, on Fargate."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.images_arns) > 0 || var.runs_on == "emr"
    error_message = "images_arns must name a repository on Fargate."
  }
}

variable "secret_arns" {
  description = "ARNs of the secrets that the task is started with, on Fargate."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.secret_arns) == 0 || var.runs_on == "fargate"
    error_message = "secret_arns are for tasks on Fargate."
  }
}
