# The key of the bucket: the modules storage and access are given the same.

variable "kms_key_arn" {
  description = "Key in KMS with which the bucket encrypts, with a bucket key, and which roles may then use; null: S3's own keys."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, not of an alias."
  }
}
