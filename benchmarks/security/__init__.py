"""What access and quotas cost, each figure with its bound: requests, hops, many ACLs, revocation, shared quotas."""
