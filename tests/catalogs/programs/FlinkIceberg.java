import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Flink reads a topic by the Iceberg catalog, with the credentials that come with the table. It prints the rows, for flink.py. */
public final class FlinkIceberg {
    public static void main(String[] versions) throws Exception {
        Configuration settings = new Configuration();
        settings.set(CoreOptions.DEFAULT_PARALLELISM, 1);
        TableEnvironment tables =
                TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().withConfiguration(settings).build());
        tables.executeSql(
                "CREATE CATALOG tidelog WITH ('type'='iceberg', 'catalog-type'='rest', 'uri'='" + System.getenv("URL")
                        + "/iceberg', 'token'='" + System.getenv("TOKEN")
                        + "', 'io-impl'='org.apache.iceberg.aws.s3.S3FileIO',"
                        + " 'header.X-Iceberg-Access-Delegation'='vended-credentials')");
        for (String version : versions) {
            String statement = "SELECT `partition`, `offset`, CAST(`timestamp` AS TIMESTAMP_LTZ(3)), key, `value` FROM tidelog.topics.`"
                    + System.getenv("TOPIC") + "` /*+ OPTIONS('snapshot-id'='" + version + "') */";
            try (CloseableIterator<Row> rows = tables.executeSql(statement).collect()) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    System.out.println("ROW " + version + " " + row.getField(0) + " " + row.getField(1) + " "
                            + ((java.time.Instant) row.getField(2)).toEpochMilli() + " " + hex(row.getField(3)) + " " + hex(row.getField(4)));
                }
            }
        }
    }

    private static String hex(Object bytes) {
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex((byte[]) bytes);
    }
}
