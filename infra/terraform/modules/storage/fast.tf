# A second store for topics that can't wait: a directory bucket (S3 Express One Zone), in one zone, with gateways and maintenance of
# its own (docs/decisions/011-s3-express.md). It is encrypted, TLS only and closed to the public by nature, and has no versions.

locals {
  fast_bucket = var.fast_zone_id == null ? null : "${var.bucket}--${var.fast_zone_id}--x-s3"
}

resource "aws_s3_directory_bucket" "fast" {
  count         = var.fast_zone_id == null ? 0 : 1
  bucket        = local.fast_bucket
  force_destroy = var.force_destroy

  location {
    name = var.fast_zone_id
  }

  lifecycle {
    precondition {
      condition     = length(coalesce(local.fast_bucket, "")) <= 63
      error_message = "bucket and fast_zone_id together make a name of more than 63 characters."
    }
  }
}
