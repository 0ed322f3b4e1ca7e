variable "bucket" {
  description = "Name of the bucket; unique in all of AWS. For Tidelog alone."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "bucket must have 3 to 63 lower-case letters, digits and dashes (dots break TLS by host name); choose a name that nobody else in AWS has."
  }
}

variable "prefix" {
  description = "Where in the bucket the log lies, without slashes at its ends."
  type        = string
  default     = "log"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.prefix))
    error_message = "prefix must be names of letters, digits, dots, dashes and underscores, separated by slashes."
  }
}

variable "fast_zone_id" {
  description = "Id of an availability zone, such as euc1-az1, for a directory bucket (S3 Express One Zone) beside the bucket; null: none."
  type        = string
  default     = null

  validation {
    condition     = var.fast_zone_id == null ? true : can(regex("^[a-z]{3,4}[0-9]-az[1-9]$", var.fast_zone_id))
    error_message = "fast_zone_id must be the id of a zone, such as euc1-az1, not its name."
  }
}

variable "access_log_bucket" {
  description = "Name of a bucket that takes S3's access logs, and whose policy lets logging.s3.amazonaws.com write there; null: none."
  type        = string
  default     = null

  validation {
    condition     = var.access_log_bucket == null ? true : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.access_log_bucket)) && var.access_log_bucket != var.bucket
    error_message = "access_log_bucket must be the name of another bucket: one that logs into itself never stops."
  }
}

variable "force_destroy" {
  description = "Whether terraform destroy deletes the bucket with everything in it. Only where no record is worth anything."
  type        = bool
  default     = false
  nullable    = false
}

variable "partition" {
  description = "AWS partition: aws, aws-cn or aws-us-gov."
  type        = string
  default     = "aws"
  nullable    = false

  validation {
    condition     = contains(["aws", "aws-cn", "aws-us-gov"], var.partition)
    error_message = "partition must be aws, aws-cn or aws-us-gov."
  }
}
