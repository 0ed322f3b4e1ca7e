# What a program may do in the store.

variable "store_policy" {
  description = "What the program may do in the log's bucket, as the module access outputs it: gateway_policy, maintenance_policy; for jobs reader_policy, or writer_policy if they append to topics."
  type        = string
  nullable    = false

  validation {
    condition     = can(jsondecode(var.store_policy).Statement)
    error_message = "store_policy must be a policy document in JSON."
  }
}
