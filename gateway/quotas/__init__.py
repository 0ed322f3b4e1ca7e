"""Quotas of principals: token buckets and counts, and a share of each quota if there are several gateways.

``limits``      the quotas that exist, and each principal's by the rows of the access table
``bucket``      one rate of one principal
``sharing``     a gateway's part of a quota, by the demand at each gateway
``account``     one principal's buckets and counts
``quotas``      all principals: whether a request passes, what it used, and which principals use a connection
``spending``    the usage of one request

No request, token or store is known here; the caller names the principal.
"""
