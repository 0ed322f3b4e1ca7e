import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Table;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.StructType;
import io.delta.kernel.utils.CloseableIterator;
import java.util.HexFormat;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;

/**
 * Prints every row of versions of Delta tables as Delta's kernel reads them: partition, offset, key and value (hexadecimal; "-":
 * null). Arguments: pairs of a table's path and a version, "newest" for the newest one. Behind each version comes "end".
 */
public class ReadByKernel {
    public static void main(String[] arguments) throws Exception {
        Engine engine = DefaultEngine.create(new Configuration());
        for (int at = 0; at < arguments.length; at += 2) {
            Table table = Table.forPath(engine, arguments[at]);
            String version = arguments[at + 1];
            boolean isNewest = version.equals("newest");
            print(engine, isNewest ? table.getLatestSnapshot(engine) : table.getSnapshotAsOfVersion(engine, Long.parseLong(version)));
            System.out.println("end");
        }
    }

    private static void print(Engine engine, Snapshot snapshot) throws Exception {
        StructType wanted = new StructType();
        for (String name : new String[] {"partition", "offset", "key", "value"}) {
            wanted = wanted.add(snapshot.getSchema().get(name));
        }
        Scan scan = snapshot.getScanBuilder().withReadSchema(wanted).build();
        Row state = scan.getScanState(engine);
        StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
        try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
            while (batches.hasNext()) {
                try (CloseableIterator<Row> files = batches.next().getRows()) {
                    while (files.hasNext()) {
                        printFile(engine, state, physical, files.next());
                    }
                }
            }
        }
    }

    private static void printFile(Engine engine, Row state, StructType physical, Row file) throws Exception {
        CloseableIterator<FileReadResult> read = engine.getParquetHandler().readParquetFiles(
            Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file)), physical, Optional.empty());
        try (CloseableIterator<FilteredColumnarBatch> batches =
                 Scan.transformPhysicalData(engine, state, file, read.map(FileReadResult::getData))) {
            while (batches.hasNext()) {
                try (CloseableIterator<Row> rows = batches.next().getRows()) {
                    while (rows.hasNext()) {
                        Row row = rows.next();
                        System.out.println(row.getInt(0) + " " + row.getLong(1) + " " + bytes(row, 2) + " " + bytes(row, 3));
                    }
                }
            }
        }
    }

    private static String bytes(Row row, int at) {
        return row.isNullAt(at) ? "-" : "x" + HexFormat.of().formatHex(row.getBinary(at));
    }
}
