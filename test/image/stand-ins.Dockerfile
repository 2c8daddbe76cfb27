# See stand-ins.yaml.
FROM millrace
USER 0
# What the health checks of compose.yaml run.
RUN apt-get update && apt-get install --yes --no-install-recommends wget postgresql-client && rm -rf /var/lib/apt/lists/* \
  && mkdir --parents --mode=1777 /var/lib/postgresql /var/lib/clickhouse
COPY stand-in.ts /
USER 1000:1000
