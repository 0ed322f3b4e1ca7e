output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.log.id
}

output "bucket_arn" {
  description = "ARN of the bucket."
  # Made from the name, not read back, so it is known and checked while planning.
  value = "arn:${var.partition}:s3:::${var.bucket}"
}

output "prefix" {
  description = "Where in the bucket the log lies."
  value       = var.prefix
}

output "store_uri" {
  description = "What gateways, jobs and tidelog take as --store."
  value       = "s3://${aws_s3_bucket.log.id}/${var.prefix}"
}

output "fast_bucket_arn" {
  description = "ARN of the directory bucket; null without one."
  value       = one(aws_s3_directory_bucket.fast[*].arn)
}

output "fast_store_uri" {
  description = "The store in the directory bucket; null without one."
  value       = var.fast_zone_id == null ? null : "s3://${local.fast_bucket}/${var.prefix}"
}
