output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.log.id
}

output "bucket_arn" {
  description = "ARN of the bucket."
  # Made from the name, not read back: known while planning, and so checked then.
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
