# What each role may do in the bucket: the exact actions below the exact prefixes. This module makes no resources: other modules
# attach these documents to their roles, and so can a service account of Kubernetes.
#
# Listing has no condition on the prefix. With a condition that a GET does not meet, S3 would answer 403 instead of 404 for a missing
# object, and readers find the end of a log by a 404. The bucket is for Tidelog alone.

variable "bucket_arn" {
  description = "ARN of the bucket, as the module storage outputs it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket_arn))
    error_message = "bucket_arn must be the ARN of a bucket, without a path."
  }
}

variable "prefix" {
  description = "Where in the bucket the log lies, without slashes at its ends."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", var.prefix))
    error_message = "prefix must be names of letters, digits, dots, dashes and underscores, separated by slashes."
  }
}

variable "fast_bucket_arn" {
  description = "ARN of the directory bucket, as the module storage outputs it; null: there is none."
  type        = string
  default     = null

  validation {
    condition     = var.fast_bucket_arn == null ? true : can(regex("^arn:aws[a-z-]*:s3express:[a-z0-9-]+:[0-9]{12}:bucket/[a-z0-9-]+--x-s3$", var.fast_bucket_arn))
    error_message = "fast_bucket_arn must be the ARN of a directory bucket."
  }
}

locals {
  names     = { bucket_arn = var.bucket_arn, prefix = var.prefix }
  templates = { for role in ["gateway", "maintenance", "reader", "writer"] : role => templatefile("${path.module}/policies/${role}.json.tftpl", local.names) }
  # These roles may use the key only through S3.
  key_statements = {
    for role in keys(local.templates) : role => [
      for action in(role == "reader" ? ["kms:Decrypt"] : ["kms:Decrypt", "kms:GenerateDataKey"]) : {
        Sid       = action == "kms:Decrypt" ? "ReadEncrypted" : "WriteEncrypted"
        Effect    = "Allow"
        Action    = action
        Resource  = var.kms_key_arn
        Condition = { StringLike = { "kms:ViaService" = "s3.*.amazonaws.com" } }
      }
    ]
  }
  documents = {
    for role, document in local.templates : role => var.kms_key_arn == null ? document : jsonencode(merge(
      jsondecode(document), { Statement = concat(jsondecode(document).Statement, local.key_statements[role]) }
    ))
  }
}

output "gateway_policy" {
  description = "JSON: reads all, writes topics and system objects, deletes only heartbeats, probes, staged and delayed records."
  value       = local.documents["gateway"]
}

output "maintenance_policy" {
  description = "JSON: reads all, writes topics, ends transactions that were left, deletes what no commit needs."
  value       = local.documents["maintenance"]
}

# A directory bucket has sessions, for reading or for everything, but neither actions nor prefixes. There a gateway's role could delete
# a segment; the gateway itself does not.
output "fast_policy" {
  description = "JSON: reads and writes the directory bucket, for gateways and for maintenance; null without one."
  value = var.fast_bucket_arn == null ? null : jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Sid = "ReadAndWrite", Effect = "Allow", Action = "s3express:CreateSession", Resource = var.fast_bucket_arn }]
  })
}

output "fast_reader_policy" {
  description = "JSON: reads the directory bucket; null without one."
  value = var.fast_bucket_arn == null ? null : jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "Read"
      Effect    = "Allow"
      Action    = "s3express:CreateSession"
      Resource  = var.fast_bucket_arn
      Condition = { StringEquals = { "s3express:SessionMode" = "ReadOnly" } }
    }]
  })
}

output "reader_policy" {
  description = "JSON: reads topics, for Spark and other Delta readers."
  value       = local.documents["reader"]
}

output "writer_policy" {
  description = "JSON: reads topics and appends to them, each batch as one transaction, for Spark jobs with Tidelog's sink on the store; deletes only what is staged."
  value       = local.documents["writer"]
}
