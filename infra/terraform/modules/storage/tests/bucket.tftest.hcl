# terraform test, without credentials or network: the bucket is encrypted, closed, and keeps what the log names.
mock_provider "aws" {}

variables {
  bucket = "tidelog-test"
}

run "bucket" {
  command = apply

  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.log.block_public_acls,
      aws_s3_bucket_public_access_block.log.block_public_policy,
      aws_s3_bucket_public_access_block.log.ignore_public_acls,
      aws_s3_bucket_public_access_block.log.restrict_public_buckets,
    ])
    error_message = "The bucket must refuse all public access."
  }

  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.log.rule).apply_server_side_encryption_by_default).sse_algorithm == "AES256"
    error_message = "The bucket must encrypt."
  }

  assert {
    condition     = alltrue([for statement in jsondecode(aws_s3_bucket_policy.log.policy).Statement : statement.Effect == "Deny"])
    error_message = "The bucket's policy must only deny."
  }

  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.log.rule[0].expiration) == 0 && length(aws_s3_bucket_lifecycle_configuration.log.rule) == 1
    error_message = "No rule may expire objects: the log names them."
  }

  assert {
    condition     = !aws_s3_bucket.log.force_destroy
    error_message = "terraform destroy must not delete records unless it is told to."
  }

  assert {
    condition     = output.store_uri == "s3://${aws_s3_bucket.log.id}/log"
    error_message = "The store's URI must name bucket and prefix."
  }
}

run "commits" {
  command = apply

  assert {
    condition = anytrue([
      for statement in jsondecode(aws_s3_bucket_policy.log.policy).Statement :
      statement.Effect == "Deny" && statement.Principal == "*" && statement.Action == "s3:PutObject"
      && statement.Condition == { Null = { "s3:if-none-match" = "true" } }
      && toset(statement.Resource) == toset(["arn:aws:s3:::tidelog-test/log/topics/*/_delta_log/*.json", "arn:aws:s3:::tidelog-test/log/system/*/_delta_log/*.json"])
    ])
    error_message = "A commit is put with If-None-Match, or not at all."
  }

  assert {
    condition     = length(aws_s3_bucket_logging.log) == 0 && !one(aws_s3_bucket_server_side_encryption_configuration.log.rule).bucket_key_enabled
    error_message = "A key in KMS and access logs are by choice."
  }
}

run "with_a_key_and_access_logs" {
  command = apply

  variables {
    kms_key_arn       = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
    access_log_bucket = "logs"
  }

  assert {
    condition = (
      one(aws_s3_bucket_server_side_encryption_configuration.log.rule).bucket_key_enabled
      && one(one(aws_s3_bucket_server_side_encryption_configuration.log.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
      && one(one(aws_s3_bucket_server_side_encryption_configuration.log.rule).apply_server_side_encryption_by_default).kms_master_key_id == var.kms_key_arn
    )
    error_message = "The bucket encrypts with the key, by a bucket key."
  }

  assert {
    condition     = aws_s3_bucket_logging.log[0].target_bucket == "logs"
    error_message = "Access logs go where they should."
  }
}

run "a_bucket_that_logs_into_itself_is_refused" {
  command = plan

  variables {
    access_log_bucket = "tidelog-test"
    kms_key_arn       = "alias/mine"
  }

  expect_failures = [var.access_log_bucket, var.kms_key_arn]
}

run "dots_are_refused" {
  command = plan

  variables {
    bucket = "has.dots"
  }

  expect_failures = [var.bucket]
}

run "slashes_at_the_ends_are_refused" {
  command = plan

  variables {
    prefix = "/log/"
  }

  expect_failures = [var.prefix]
}

run "with_a_directory_bucket" {
  command = plan

  variables {
    fast_zone_id = "euc1-az2"
  }

  assert {
    condition     = aws_s3_directory_bucket.fast[0].location[0].name == "euc1-az2" && !aws_s3_directory_bucket.fast[0].force_destroy
    error_message = "It stands in the zone that was named, and keeps its records."
  }

  assert {
    condition     = output.fast_store_uri == "s3://tidelog-test--euc1-az2--x-s3/log"
    error_message = "The store's URI must name it: by its suffix it is known for what it is."
  }
}
