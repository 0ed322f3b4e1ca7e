# terraform test, without credentials or network: one way to run or the other, under one role with exact actions.
mock_provider "aws" {
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:test" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/test" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:123456789012:task-definition/test:1" }
  }
  mock_resource "aws_emrserverless_application" {
    defaults = { arn = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00abc", id = "00abc" }
  }
}

variables {
  region          = "eu-central-1"
  image           = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/tidelog-spark:0.1.0"
  repository_arns = ["arn:aws:ecr:eu-central-1:123456789012:repository/tidelog-spark"]
  store_uri       = "s3://bucket/log"
  store_policy    = "{\"Version\": \"2012-10-17\", \"Statement\": []}"
  cluster_arn     = "arn:aws:ecs:eu-central-1:123456789012:cluster/test"
  vpc_id          = "vpc-0123456789abcdef0"
  subnet_ids      = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
}

run "on_fargate" {
  command = apply

  assert {
    condition     = aws_ecs_service.maintenance[0].desired_count == 1 && length(module.emr) == 0
    error_message = "By default there is one task, and no application."
  }

  assert {
    condition     = contains(jsondecode(aws_ecs_task_definition.maintenance[0].container_definitions)[0].command, "60s")
    error_message = "It runs a round every minute."
  }

  assert {
    condition = alltrue([
      for each in jsondecode(module.task.execution_policy).Statement :
      alltrue([for action in flatten([each.Action]) : !strcontains(action, "*")])
      && (each.Action == "ecr:GetAuthorizationToken" || alltrue([for resource in flatten([each.Resource]) : startswith(resource, "arn:") && !endswith(resource, ":::*")]))
    ])
    error_message = "No role may do everything, or anywhere: only the permission for a registry token can't be limited to a resource."
  }

  assert {
    condition     = module.task.service == "ecs-tasks.amazonaws.com"
    error_message = "The role is a task's."
  }
}

run "on_emr" {
  command = apply

  variables {
    runs_on     = "emr"
    image       = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/team/tidelog-emr:0.1.0"
    cluster_arn = null
    vcpu_max    = 12
  }

  assert {
    condition     = length(aws_ecs_service.maintenance) == 0 && module.task.execution_role_arn == null
    error_message = "There is no task beside the application."
  }

  assert {
    condition     = module.emr[0].schedules.maintenance.expression == "rate(10 minutes)"
    error_message = "A round begins every ten minutes."
  }

  assert {
    condition     = module.emr[0].schedules.maintenance.call == "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    error_message = "The schedule starts a run of a job."
  }

  assert {
    condition     = module.emr[0].schedules.maintenance.input.ApplicationId == "00abc" && module.emr[0].schedules.maintenance.input.ExecutionRoleArn == module.task.role_arn
    error_message = "It does so in this application, with this role."
  }

  assert {
    condition     = contains(module.emr[0].schedules.maintenance.input.JobDriver.SparkSubmit.EntryPointArguments, "--once")
    error_message = "A run is one round."
  }

  assert {
    condition     = contains(module.emr[0].schedules.maintenance.input.JobDriver.SparkSubmit.EntryPointArguments, "10m")
    error_message = "It says when the next one is due, so that gateways raise an alarm where the schedule starts none."
  }

  assert {
    condition     = module.emr[0].schedules.maintenance.input.ConfigurationOverrides.MonitoringConfiguration.CloudWatchLoggingConfiguration.LogGroupName == output.log_group_name
    error_message = "Its lines are where the alarms look for them."
  }

  assert {
    condition     = strcontains(module.emr[0].schedules.maintenance.input.JobDriver.SparkSubmit.SparkSubmitParameters, "spark.dynamicAllocation.maxExecutors=5 ")
    error_message = "Driver and executors of two cores fit into vcpu_max."
  }

  assert {
    condition     = module.emr[0].may_start == { "emr-serverless:StartJobRun" = module.emr[0].application_arn, "iam:PassRole" = module.task.role_arn }
    error_message = "The schedule may start rounds of this application as this role, and nothing else."
  }

  assert {
    condition     = flatten([for each in jsondecode(aws_iam_role_policy.log[0].policy).Statement : each.Action]) == ["logs:DescribeLogGroups", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    error_message = "Beside the store's policy the role may write its log, and nothing else."
  }

  assert {
    condition     = aws_ecr_repository_policy.emr[0].repository == "team/tidelog-emr" && jsondecode(aws_ecr_repository_policy.emr[0].policy).Statement[0].Condition.ArnLike["aws:SourceArn"] == "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/*"
    error_message = "EMR may pull the image for applications of this account."
  }

  assert {
    condition     = module.task.service == "emr-serverless.amazonaws.com"
    error_message = "The role is a job's."
  }
}

run "more_often_than_a_run_takes_to_start_is_refused" {
  command = plan

  variables {
    runs_on       = "emr"
    every_seconds = 60
  }

  expect_failures = [aws_ecr_repository_policy.emr]
}

run "an_older_spark_is_refused" {
  command = plan

  variables {
    runs_on       = "emr"
    release_label = "emr-7.9.0"
  }

  expect_failures = [var.release_label]
}
