# What a cluster has of its own: one program each.
FROM scratch AS pause
COPY pause /pause
ENTRYPOINT ["/pause"]

FROM scratch AS coredns
COPY coredns /coredns
ENTRYPOINT ["/coredns"]

FROM scratch AS metrics-server
COPY cluster /cluster
ENTRYPOINT ["/cluster", "metrics-server"]

FROM scratch AS policies
COPY policies /policies
ENTRYPOINT ["/policies"]
