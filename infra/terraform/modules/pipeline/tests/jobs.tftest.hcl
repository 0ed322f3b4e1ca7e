# terraform test, without credentials or network: jobs start by their schedules, and do in the log's bucket what they were given and nothing else.
mock_provider "aws" {
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/test" }
  }
  mock_resource "aws_emrserverless_application" {
    defaults = { arn = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00abc", id = "00abc" }
  }
}

variables {
  vpc_id         = "vpc-0123456789abcdef0"
  subnet_ids     = ["subnet-0123456789abcdef0"]
  store_policy   = "{\"Version\": \"2012-10-17\", \"Statement\": []}"
  scripts_bucket = "scripts"
  jobs           = { delays = { script = "delays.py", arguments = ["--day", "1"], schedule = "cron(0 3 * * ? *)" } }
}

run "a_job_by_its_schedule" {
  command = apply

  assert {
    condition     = module.emr.schedules.delays.expression == "cron(0 3 * * ? *)" && module.emr.schedules.delays.call == "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    error_message = "The schedule starts a run of a job."
  }

  assert {
    condition     = module.emr.schedules.delays.input.JobDriver.SparkSubmit.EntryPoint == "s3://scripts/scripts/delays.py"
    error_message = "The job is its script."
  }

  assert {
    condition     = module.emr.schedules.delays.input.ExecutionTimeoutMinutes == 60
    error_message = "A run has a bound."
  }

  assert {
    condition     = module.emr.stops_by_itself && module.emr.capacity.cpu == "16 vCPU"
    error_message = "The application stops by itself, and its bill has a bound."
  }

  assert {
    condition     = module.emr.may_start == { "emr-serverless:StartJobRun" = module.emr.application_arn, "iam:PassRole" = module.task.role_arn }
    error_message = "The schedule may start runs of this application as this role, and nothing else."
  }

  assert {
    condition     = [for each in jsondecode(aws_iam_role_policy.own.policy).Statement : each.Resource if contains(flatten([each.Action]), "s3:PutObject")] == ["arn:aws:s3:::scripts/results/*"]
    error_message = "Jobs write their results, and nothing else."
  }
}

run "writers" {
  command = apply

  module {
    source = "../access"
  }

  variables {
    bucket_arn = "arn:aws:s3:::tidelog-test"
    prefix     = "log"
  }
}

run "a_job_that_appends_to_topics" {
  command = apply

  variables {
    store_policy = run.writers.writer_policy
  }

  assert {
    condition     = toset(flatten([for each in jsondecode(aws_iam_role_policy.topics.policy).Statement : each.Action])) == toset(["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
    error_message = "Exact actions."
  }

  assert {
    condition     = flatten([for each in jsondecode(aws_iam_role_policy.topics.policy).Statement : each.Resource if contains(flatten([each.Action]), "s3:DeleteObject")]) == ["arn:aws:s3:::tidelog-test/log/system/transactions/staged/*"]
    error_message = "It deletes what it staged, and nothing else."
  }

  assert {
    condition     = toset(flatten([for each in jsondecode(aws_iam_role_policy.topics.policy).Statement : each.Resource if strcontains(each.Sid, "Append")])) == toset(["arn:aws:s3:::tidelog-test/log/topics/*/segments/*.parquet", "arn:aws:s3:::tidelog-test/log/topics/*/_delta_log/*.json", "arn:aws:s3:::tidelog-test/log/system/journals/*/segments/*.parquet", "arn:aws:s3:::tidelog-test/log/system/journals/*/_delta_log/*.json"])
    error_message = "It appends segments and commits to topics and journals: no checkpoint, nothing that is merged."
  }
}

run "a_release_without_delta_and_a_schedule_that_is_none_are_refused" {
  command = plan

  variables {
    release_label = "emr-6.8.0"
    jobs          = { delays = { script = "delays.py", schedule = "hourly" } }
  }

  expect_failures = [var.release_label, var.jobs]
}

run "results_in_the_bucket_of_the_log_are_refused" {
  command = plan

  variables {
    store_policy   = run.writers.writer_policy
    scripts_bucket = "tidelog-test"
    results_prefix = "/log/"
  }

  expect_failures = [var.scripts_bucket, var.results_prefix]
}
