# In place of the images of others, where no registry is reached (make docker): a Debian's programs, run as the real images run theirs.
ARG BASE
FROM ${BASE} AS minio
COPY minio mc /usr/local/bin/
VOLUME /data
ENTRYPOINT ["minio"]

FROM ${BASE} AS forky
# Debian's stable nginx is older than "resolve": the next one's, with its own libraries, as a root of its own.
RUN sed 's/bookworm/forky/' /etc/apt/sources.list > /etc/apt/sources.list.d/forky.list \
    && apt-get -o Acquire::Check-Valid-Until=false update -qq \
    && apt-get install -qq -y --no-install-recommends --download-only -t forky nginx > /dev/null \
    && mkdir -p /nginx/usr/lib /nginx/usr/lib64 && ln -s usr/lib /nginx/lib && ln -s usr/lib64 /nginx/lib64 \
    && for each in /var/cache/apt/archives/*.deb; do dpkg-deb --fsys-tarfile "$each" | tar -x -C /nginx --keep-directory-symlink; done \
    && mkdir -p /nginx/var/cache/nginx /nginx/run /nginx/etc/nginx/conf.d \
    && printf 'root:x:0:0::/:\nnginx:x:101:101::/:\n' > /nginx/etc/passwd && printf 'root:x:0:\nnginx:x:101:\n' > /nginx/etc/group
COPY nginx.conf /nginx/etc/nginx/nginx.conf

FROM scratch AS nginx
COPY --from=forky /nginx /
ENTRYPOINT ["/usr/sbin/nginx", "-e", "/dev/stderr", "-g", "daemon off;"]
STOPSIGNAL SIGQUIT

FROM ${BASE} AS emr
# EMR's own has Spark, too, which maintenance by its image does not need.
RUN useradd --create-home hadoop

FROM ${BASE} AS prometheus
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends prometheus > /dev/null \
    && mkdir -p /prometheus && chown nobody:nogroup /prometheus
USER nobody
VOLUME /prometheus
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
