# terraform test, without credentials or network: a program on Fargate or on EMR has what it needs there and nothing else.
mock_provider "aws" {
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:test" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/test" }
  }
}

variables {
  program        = "maintenance"
  runs_on        = "fargate"
  vpc_id         = "vpc-0123456789abcdef0"
  security_group = { suffix = "maintenance", description = "Maintenance." }
  log_days       = 30
  images_arns    = ["arn:aws:ecr:eu-central-1:123456789012:repository/tidelog-spark"]
}

run "on_fargate" {
  command = apply

  assert {
    condition     = output.service == "ecs-tasks.amazonaws.com" && output.execution_role_arn != null
    error_message = "The role is a task's, and another one starts the task."
  }

  assert {
    condition     = [for each in jsondecode(output.execution_policy).Statement : each.Sid] == ["RegistryToken", "PullImages", "WriteLog"]
    error_message = "What starts the task reads no secret that it was not given."
  }

  assert {
    condition     = jsondecode(output.execution_policy).Statement[2].Resource == "${output.log_group_arn}:log-stream:*"
    error_message = "It writes this program's log."
  }

  assert {
    condition     = output.container.readonlyRootFilesystem && output.container.user == "10001:10001" && output.container.linuxParameters.capabilities.drop == ["ALL"]
    error_message = "The container has no rights on its machine."
  }
}

run "on_emr_without_a_log" {
  command = apply

  variables {
    program     = "job"
    runs_on     = "emr"
    log_days    = null
    images_arns = []
  }

  assert {
    condition     = output.service == "emr-serverless.amazonaws.com" && output.execution_role_arn == null && output.execution_policy == null
    error_message = "The role is a job's, and nothing starts a task."
  }

  assert {
    condition     = output.log_group_name == null
    error_message = "There is no log."
  }
}

run "a_task_without_images_and_a_job_with_secrets_are_refused" {
  command = plan

  variables {
    images_arns = []
    log_days    = 0
    program     = "other"
  }

  expect_failures = [var.images_arns, var.log_days, var.program]
}
