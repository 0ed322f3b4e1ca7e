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
  default     = ["eu-central-1a", "eu-central-1b"]
  nullable    = false
}

variable "bucket" {
  description = "Name of the bucket to make; unique in all of AWS."
  type        = string
  nullable    = false
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

variable "repository_arns" {
  description = "ARNs of the ECR repositories of the images."
  type        = list(string)
  nullable    = false
}

variable "client_cidrs" {
  description = "Networks from which clients come, such as your own address with /32."
  type        = list(string)
  nullable    = false
}

variable "is_internal" {
  description = "Whether clients are inside the network only."
  type        = bool
  default     = true
  nullable    = false
}

variable "force_destroy" {
  description = "Whether terraform destroy deletes the bucket with everything in it."
  type        = bool
  default     = false
  nullable    = false
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

variable "certificate_arn" {
  description = "Certificate in ACM by which clients know the load balancer. Needed with auth on: they send tokens over TLS alone."
  type        = string
  default     = null
}

variable "host_name" {
  description = "DNS name in that certificate, an alias of the output balancer_name. Needed with a certificate."
  type        = string
  default     = null
}
