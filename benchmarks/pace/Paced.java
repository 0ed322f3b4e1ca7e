import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** send().get(), one by one, with default settings: SERVERS TOPIC SECONDS. It says what paced_client.py says. */
public final class Paced {
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        byte[] value = new byte[100];
        List<String> latencies = new ArrayList<>();
        long started;
        long ended;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(given[1], value)).get();
            System.out.println("ready");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            started = System.nanoTime();
            ended = started;
            long late = started + (long) (Double.parseDouble(given[2]) * 1e9);
            while (ended < late) {
                long begun = System.nanoTime();
                producer.send(new ProducerRecord<>(given[1], value)).get();
                ended = System.nanoTime();
                latencies.add(Double.toString((ended - begun) / 1e6));
            }
        }
        String each = String.join(",", latencies);
        System.out.println("{\"seconds\":" + (ended - started) / 1e9 + ",\"latencies_ms\":[" + each + "]}");
    }
}
