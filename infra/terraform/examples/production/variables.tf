variable "name" {
  description = "Prefix of the names of everything that is made."
  type        = string
  default     = "tidelog"
  nullable    = false
}

variable "region" {
  description = "Region of everything."
  type        = string
  default     = "eu-central-1"
  nullable    = false
}

variable "zones" {
  description = "Availability zones of the region."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  nullable    = false
}

variable "bucket" {
  description = "Name of the bucket to make; unique in all of AWS."
  type        = string
  nullable    = false
}

variable "fast_zone_id" {
  description = "Id of the zone of a second log for topics that can't wait, such as euc1-az1; null: none."
  type        = string
  default     = null
}

variable "gateway_image" {
  description = "The gateway's image in your ECR, with its tag."
  type        = string
  nullable    = false
}

variable "spark_image" {
  description = "The image of Spark jobs in your ECR, with its tag."
  type        = string
  nullable    = false
}

variable "emr_image" {
  description = "The image for EMR in your ECR, with its tag: maintenance then runs there; null: on Fargate, by spark_image."
  type        = string
  default     = null
}

variable "repository_arns" {
  description = "ARNs of the ECR repositories of the images."
  type        = list(string)
  nullable    = false
}

variable "collector_image" {
  description = "Image of the AWS distribution of the OpenTelemetry collector in your ECR; null: no scaling by bytes in flight, no alarm on the lag of consumers."
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = "Key in KMS with which the bucket encrypts; null: S3's own keys."
  type        = string
  default     = null
}

variable "log_bucket" {
  description = "Name of a bucket of yours that takes access logs of the bucket and of the load balancer, and flow logs; null: none."
  type        = string
  default     = null
}

variable "client_cidrs" {
  description = "Networks from which clients come, beside this one: peered or by VPN."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "certificate_arn" {
  description = "Certificate in ACM for the name by which clients know the load balancer."
  type        = string
  nullable    = false
}

variable "count_max" {
  description = "Gateways at most: the bound of the bill for compute."
  type        = number
  default     = 9
  nullable    = false
}

variable "scripts_bucket" {
  description = "A bucket of yours for the jobs' scripts, checkpoints and results."
  type        = string
  nullable    = false
}

variable "jobs" {
  description = "Scheduled Spark jobs: see the module pipeline."
  type = map(object({
    script          = string
    arguments       = optional(list(string), [])
    schedule        = string
    timeout_minutes = optional(number, 60)
  }))
  default  = {}
  nullable = false
}

variable "jobs_append" {
  description = "Whether those jobs may append to topics, and not only read them."
  type        = bool
  default     = false
  nullable    = false
}

variable "emails" {
  description = "Mail addresses that get alarms."
  type        = list(string)
  nullable    = false
}

variable "daily_usd_max" {
  description = "US dollars a day above which they get a mail."
  type        = number
  default     = 50
}

variable "auth" {
  description = "on: every request needs a token. off: everyone whom client_cidrs let in may do everything."
  type        = string
  default     = "on"
  nullable    = false
}

variable "cluster_key_secret_arn" {
  description = "Secret in Secrets Manager with the key by which gateways know each other: openssl rand -hex 32. Needed with auth on."
  type        = string
  default     = null
}

variable "bootstrap_token_secret_arn" {
  description = "Secret in Secrets Manager with the token of User:bootstrap, which makes the first tokens; null once others can."
  type        = string
  default     = null
}

variable "host_name" {
  description = "DNS name in that certificate, an alias of the output balancer_name."
  type        = string
  nullable    = false
}

variable "fast_host_name" {
  description = "Another DNS name in that certificate, an alias of the output fast_balancer_name. Needed with fast_zone_id."
  type        = string
  default     = null
}

variable "log_requests" {
  description = "Requests that are a line each in the gateways' logs: failures, or all, which the alarm acknowledgement-slow needs."
  type        = string
  default     = "failures"
  nullable    = false
}
