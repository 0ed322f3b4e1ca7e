variable "collector_image" {
  description = "Image of the AWS distribution of the OpenTelemetry collector; null: no collector, no scaling by bytes in flight, no lag of consumers."
  type        = string
  default     = null

  validation {
    condition     = var.collector_image == null ? true : can(regex("^[a-z0-9][a-z0-9./:_-]*(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.collector_image)) && !endswith(var.collector_image, ":latest")
    error_message = "collector_image must name a tag or a digest, and not latest."
  }
}

variable "is_internal" {
  description = "Whether the load balancer is reachable from the network only. If not, client_cidrs and tokens are what keeps others out; with auth off client_cidrs alone."
  type        = bool
  default     = true
  nullable    = false
}

variable "client_cidrs" {
  description = "IPv4 networks from which clients come, such as 10.0.0.0/8; one machine is 198.51.100.7/32."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.client_cidrs) > 0 && alltrue([for cidr in var.client_cidrs : can(regex("^[0-9.]+/[0-9]+$", cidr)) && try(cidrsubnet(cidr, 0, 0), "") == cidr])
    error_message = "client_cidrs must be IPv4 networks by their first address, such as 10.0.0.0/8; one machine is 198.51.100.7/32. The load balancer has no IPv6 address, so ::/0 is nothing to let in."
  }

  validation {
    # Two halves of the internet are the internet; the private networks together are a tenth of the bound.
    condition     = sum(concat([0], [for cidr in var.client_cidrs : try(pow(2, 32 - tonumber(split("/", cidr)[1])), 0)])) <= pow(2, 28)
    error_message = "client_cidrs are together more than sixteen networks of /8: name the networks that your clients come from, not the internet. Tokens are one door, the network is another."
  }
}

variable "certificate_arn" {
  description = "Certificate of the load balancer, for HTTPS, which names host_name; null: plain HTTP, inside a network only."
  type        = string
  default     = null

  validation {
    condition     = var.certificate_arn == null ? true : can(regex("^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[0-9a-f-]{36}$", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of a certificate in ACM, to its end: aws acm list-certificates shows it."
  }
}

variable "tls_secret_arn" {
  description = "Secret in Secrets Manager: one PEM text with the certificate that all gateways share, its chain and its key. Then load balancer and gateways speak TLS to the gateways; null: plain HTTP inside the security groups."
  type        = string
  default     = null

  validation {
    condition     = var.tls_secret_arn == null ? true : can(regex("^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.tls_secret_arn))
    error_message = "tls_secret_arn must be the ARN of a secret in Secrets Manager, to its end (aws secretsmanager list-secrets shows it)."
  }
}

variable "kafka_port" {
  description = "Port of a listener for Kafka's clients at each gateway, and of a load balancer of their own, where they begin; null: no such listener. They are told each task's address, so they must reach the tasks' subnets, and the certificate (tls_name) does not name it: they must not verify host names. With auth on it needs tls_secret_arn."
  type        = number
  default     = null

  validation {
    condition     = var.kafka_port == null ? true : var.kafka_port >= 1024 && var.kafka_port <= 65535 && !contains([8080, 8081], var.kafka_port)
    error_message = "kafka_port must be from 1024 to 65535, and not 8080 or 8081."
  }

  validation {
    condition     = var.kafka_port == null || var.auth == "off" || var.tls_secret_arn != null
    error_message = "kafka_port with auth on needs tls_secret_arn and tls_name: Kafka's clients go to the gateways themselves, past the load balancer and its certificate, and would send their tokens in plain text. docs/deploy.md, \"TLS inside\", says how the secret is made."
  }
}

variable "tls_name" {
  description = "DNS name in the certificate of tls_secret_arn, by which gateways know each other: their addresses are not known before."
  type        = string
  default     = null

  validation {
    condition     = (var.tls_name == null) == (var.tls_secret_arn == null) && (var.tls_name == null ? true : can(regex("^[A-Za-z0-9.-]{1,253}$", var.tls_name)))
    error_message = "tls_name must be a DNS name, and is given with tls_secret_arn or not at all."
  }
}

variable "auth" {
  description = "on: every request needs a token, a JWT or a client certificate. off: everyone whom client_cidrs let in may do everything."
  type        = string
  default     = "on"
  nullable    = false

  validation {
    condition     = contains(["on", "off"], var.auth)
    error_message = "auth must be on or off."
  }

  validation {
    condition     = var.auth == "off" || var.certificate_arn != null
    error_message = "auth on needs certificate_arn: clients send their tokens over TLS alone."
  }
}

variable "host_name" {
  description = "DNS name in the certificate of certificate_arn, by which clients find the load balancer; make it an alias of the output balancer_name. Needed with a certificate. Null: the load balancer's own name."
  type        = string
  default     = null

  validation {
    condition     = var.host_name == null ? true : can(regex("^[A-Za-z0-9.-]{1,253}$", var.host_name))
    error_message = "host_name must be a DNS name."
  }

  validation {
    condition     = var.host_name != null || var.certificate_arn == null
    error_message = "host_name must be a name in the certificate of certificate_arn: no certificate names the load balancer's own address, so no client would trust it. Make that name an alias (CNAME) of the output balancer_name."
  }
}

variable "cluster_key_secret_arn" {
  description = "Secret in Secrets Manager: the key by which gateways know each other, such as openssl rand -hex 32 makes; two lines while it changes. Needed with auth on."
  type        = string
  default     = null

  validation {
    condition     = var.cluster_key_secret_arn == null ? var.auth == "off" : can(regex("^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.cluster_key_secret_arn))
    error_message = "cluster_key_secret_arn must be the ARN of a secret in Secrets Manager, to its end (aws secretsmanager list-secrets shows it), and is needed with auth on."
  }
}

variable "bootstrap_token_secret_arn" {
  description = "Secret in Secrets Manager: the token of User:bootstrap, which may do everything and makes the first tokens. Null once others can."
  type        = string
  default     = null

  validation {
    condition     = var.bootstrap_token_secret_arn == null ? true : can(regex("^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.bootstrap_token_secret_arn))
    error_message = "bootstrap_token_secret_arn must be the ARN of a secret in Secrets Manager, to its end (aws secretsmanager list-secrets shows it)."
  }
}

variable "super_users" {
  description = "Principals that may do everything, such as User:alice."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for each in var.super_users : can(regex("^User:[^, ][^,]*$", each))])
    error_message = "super_users must be principals: User:alice."
  }
}

variable "oidc" {
  description = "OpenID Connect issuer whose JWTs are credentials, what their aud must name, and the id of its public client for the console's login (null: no login there); null: none."
  type = object({
    issuer    = string
    audience  = string
    client_id = optional(string)
  })
  default = null

  validation {
    condition     = var.oidc == null ? true : startswith(var.oidc.issuer, "https://") && length(var.oidc.audience) > 0 && var.oidc.client_id != ""
    error_message = "oidc needs an issuer with https:// and an audience, and client_id must have characters where it is given."
  }
}

variable "access_log_bucket" {
  description = "Name of a bucket that takes the load balancer's access logs, and whose policy lets logdelivery.elasticloadbalancing.amazonaws.com write there; null: none."
  type        = string
  default     = null

  validation {
    condition     = var.access_log_bucket == null ? true : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.access_log_bucket))
    error_message = "access_log_bucket must be the name of a bucket."
  }
}

variable "is_protected" {
  description = "Whether terraform destroy is refused for the load balancer until this is false."
  type        = bool
  default     = false
  nullable    = false
}

variable "count_min" {
  description = "Gateways at least. Two or more survive the loss of one."
  type        = number
  default     = 2
  nullable    = false

  validation {
    condition     = var.count_min >= 1 && floor(var.count_min) == var.count_min
    error_message = "count_min must be a whole number from 1 on."
  }
}

variable "count_max" {
  description = "Gateways at most: the bound of the bill for compute."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.count_max <= 256 && floor(var.count_max) == var.count_max
    error_message = "count_max must be a whole number up to 256: gateways read each other's heartbeats."
  }
}
