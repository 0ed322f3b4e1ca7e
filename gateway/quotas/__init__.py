"""How much a principal may use: token buckets and counts, and a share of each quota where there are several gateways.

``limits``      the quotas that there are, and what one principal may use
``rows``        what the access table says of that
``bucket``      one rate of one principal
``sharing``     a gateway's part of a quota, by what all of them are asked for
``account``     one principal's buckets and counts
``quotas``      all principals: may a request pass, and what did it use; which of them uses a connection
``spending``    what one request uses

No request, no token and no store is known here; the caller names the principal.
"""
