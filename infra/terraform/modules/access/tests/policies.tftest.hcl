# terraform test, without credentials or network: exact actions, below the log's own prefix, and only the stated deletions.
variables {
  bucket_arn = "arn:aws:s3:::tidelog-test"
  prefix     = "deep/log"
}

run "policies" {
  command = apply

  assert {
    condition = alltrue([
      for each in flatten([for policy in [output.gateway_policy, output.maintenance_policy, output.reader_policy, output.writer_policy] : jsondecode(policy).Statement]) :
      each.Effect == "Allow" && contains(["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"], each.Action)
    ])
    error_message = "Exact actions, one a statement."
  }

  assert {
    condition = alltrue([
      for each in flatten([for policy in [output.gateway_policy, output.maintenance_policy, output.reader_policy, output.writer_policy] : jsondecode(policy).Statement]) :
      each.Action == "s3:ListBucket" ? each.Resource == var.bucket_arn : alltrue([for resource in flatten([each.Resource]) : startswith(resource, "${var.bucket_arn}/${var.prefix}/")])
    ])
    error_message = "Nothing outside of the log."
  }

  assert {
    condition     = toset([for each in jsondecode(output.reader_policy).Statement : each.Action]) == toset(["s3:ListBucket", "s3:GetObject"])
    error_message = "A reader reads."
  }

  assert {
    condition     = alltrue([for resource in flatten([for each in jsondecode(output.gateway_policy).Statement : each.Resource if each.Action == "s3:DeleteObject"]) : strcontains(resource, "/system/") || endswith(resource, "/topics/*/scheduled/*")])
    error_message = "A gateway deletes nothing of a topic but delayed records."
  }

  assert {
    condition     = output.fast_policy == null && output.fast_reader_policy == null
    error_message = "Without a directory bucket no role may use one."
  }
}

run "with_a_directory_bucket" {
  command = apply

  variables {
    fast_bucket_arn = "arn:aws:s3express:eu-central-1:123456789012:bucket/tidelog-test--euc1-az2--x-s3"
  }

  assert {
    condition     = jsondecode(output.fast_policy).Statement[0].Action == "s3express:CreateSession" && jsondecode(output.fast_policy).Statement[0].Resource == var.fast_bucket_arn
    error_message = "Sessions with this bucket."
  }

  assert {
    condition     = jsondecode(output.fast_reader_policy).Statement[0].Condition.StringEquals["s3express:SessionMode"] == "ReadOnly"
    error_message = "A reader's session reads."
  }
}

run "with_a_key" {
  command = apply

  variables {
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
  }

  assert {
    condition = alltrue([
      for policy in [output.gateway_policy, output.maintenance_policy, output.writer_policy] :
      toset([for each in jsondecode(policy).Statement : each.Action if each.Resource == var.kms_key_arn]) == toset(["kms:Decrypt", "kms:GenerateDataKey"])
    ])
    error_message = "A writer may use the key to write."
  }

  assert {
    condition     = [for each in jsondecode(output.reader_policy).Statement : each.Action if each.Resource == var.kms_key_arn] == ["kms:Decrypt"]
    error_message = "A reader may only decrypt."
  }
}

run "wildcards_are_refused" {
  command = plan

  variables {
    bucket_arn      = "arn:aws:s3:::*"
    prefix          = "*"
    fast_bucket_arn = "*"
    kms_key_arn     = "*"
  }

  expect_failures = [var.bucket_arn, var.prefix, var.fast_bucket_arn, var.kms_key_arn]
}
