# The bucket. No rule here deletes an object of the log: retention and collection are left to maintenance, which knows the log.

resource "aws_s3_bucket" "log" {
  bucket        = var.bucket
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "log" {
  bucket                  = aws_s3_bucket.log.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "log" {
  bucket = aws_s3_bucket.log.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "log" {
  bucket = aws_s3_bucket.log.id

  rule {
    # A bucket key, derived from the one in KMS: otherwise each object would cost a request to KMS.
    bucket_key_enabled = var.kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

# Off: an object of the log is never replaced (by conditional PUT), and what maintenance deletes should be gone, since kept versions
# would cost for ever. A topic's table has its own versions to go back to, for a day.
resource "aws_s3_bucket_versioning" "log" {
  bucket = aws_s3_bucket.log.id

  versioning_configuration {
    status = "Disabled"
  }
}

# The only rule. A rule that expires objects by age would delete segments that the log still names.
resource "aws_s3_bucket_lifecycle_configuration" "log" {
  bucket = aws_s3_bucket.log.id

  rule {
    id     = "abort-incomplete-uploads"
    status = "Enabled"
    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_logging" "log" {
  count         = var.access_log_bucket == null ? 0 : 1
  bucket        = aws_s3_bucket.log.id
  target_bucket = var.access_log_bucket
  target_prefix = "${var.bucket}/"
}

locals {
  log_arn    = "arn:${var.partition}:s3:::${var.bucket}/${var.prefix}"
  everything = ["arn:${var.partition}:s3:::${var.bucket}", "arn:${var.partition}:s3:::${var.bucket}/*"]

  policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TlsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = local.everything
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "ModernTlsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = local.everything
        Condition = { NumericLessThan = { "s3:TlsVersion" = "1.2" } }
      },
      {
        # A commit is put only where there is none, so a writing role can't change an acknowledged one. A multipart upload has no such
        # condition at its start, and is refused there altogether.
        Sid       = "CommitsAreNeverReplaced"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:PutObject"
        Resource  = ["${local.log_arn}/topics/*/_delta_log/*.json", "${local.log_arn}/system/*/_delta_log/*.json"]
        Condition = { Null = { "s3:if-none-match" = "true" } }
      },
    ]
  }
}

resource "aws_s3_bucket_policy" "log" {
  bucket     = aws_s3_bucket.log.id
  policy     = jsonencode(local.policy)
  depends_on = [aws_s3_bucket_public_access_block.log]
}
