// Programs that read a topic, to be copied: with its name, and the addresses of this gateway and store.

const inShell = (text) => /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const quoted = JSON.stringify;

// The store that holds `topics/<name>`.
const storeOf = (uri) => uri.replace(/\/+$/, "").split("/").slice(0, -2).join("/");

// [name, what it needs, text]. `uri`: the topic's table; `kafka`: host:port of the Kafka listener, null where there is none;
// `signed`: whether callers need a token.
export function programs({ origin, topic, uri, kafka, signed }) {
  const gateway = signed ? "Needs your token in TIDELOG_TOKEN" : "", store = "Reads the store itself: needs its credentials, no gateway";
  const bearer = signed ? '-H "Authorization: Bearer $TIDELOG_TOKEN" ' : "";
  const [os, token, secret] = signed ? ["import os\n", ', token=os.environ["TIDELOG_TOKEN"]', 'os.environ["TIDELOG_TOKEN"]'] : ["", "", '"any"'];
  const sasl = signed ? ` -X security.protocol=${origin.startsWith("https:") ? "SASL_SSL" : "SASL_PLAINTEXT"} -X sasl.mechanisms=PLAIN -X sasl.username=token -X sasl.password="$TIDELOG_TOKEN"` : "";
  return [
    ["curl", gateway, `curl ${bearer}${inShell(`${origin}/v1/topics/${encodeURIComponent(topic)}/partitions/0/records?offset=earliest`)}`],
    ["Command line", gateway, `tidelog consume ${topic} --url ${origin}`],
    ["Python", gateway, `from tidelog import Consumer

with Consumer(${quoted(topic)}, bootstrap_servers=${quoted(origin)}, auto_offset_reset="earliest", consumer_timeout_ms=1000) as consumer:
    for record in consumer:
        print(record.partition, record.offset, record.key, record.value)`],
    ...(kafka ? [["Kafka (kcat)", gateway, `kcat -b ${kafka}${sasl} -C -t ${topic} -o beginning -e`]] : []),
    ["Spark", store, `from spark_pipeline import session

spark = session(${quoted(storeOf(uri))})
spark.read.format("tidelog").options(store=${quoted(storeOf(uri))}, subscribe=${quoted(topic)}).load().show()`],
    ["pandas", store, `from deltalake import DeltaTable

print(DeltaTable(${quoted(uri)}).to_pandas())`],
    ["DuckDB", store, `import duckdb
from deltalake import DeltaTable

records = DeltaTable(${quoted(uri)}).to_pyarrow_dataset()
duckdb.sql("SELECT partition, count(*) FROM records GROUP BY partition").show()`],
    ["Iceberg (PyIceberg)", [gateway, "files are read from the store"].filter(Boolean).join("; "), `${os}from pyiceberg.catalog import load_catalog

catalog = load_catalog("tidelog", type="rest", uri=${quoted(`${origin}/iceberg`)}${token})
print(catalog.load_table(("topics", ${quoted(topic)})).scan().to_arrow())`],
    ["Delta Sharing", gateway, `import json
${os}import delta_sharing

profile = {"shareCredentialsVersion": 1, "endpoint": ${quoted(`${origin}/delta-sharing`)}, "bearerToken": ${secret}}
with open("tidelog.share", "w") as file:
    json.dump(profile, file)
print(delta_sharing.load_as_pandas(${quoted(`tidelog.share#tidelog.topics.${topic.replaceAll(".", "%2E")}`)}))`],
  ];
}
