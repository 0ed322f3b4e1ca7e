// What a program of kafka-go does: administration, five codecs, a group that stops and goes on, a reader of one partition.
//
// Arguments: bootstrap servers, prefix of topics and groups.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"tidelog.example/kafka-clients/checked"
)

var servers, prefix = os.Args[1], os.Args[2]

func produce(ctx context.Context, topic string, codec kafka.Compression, word string, count int) []string {
	writer := &kafka.Writer{Addr: kafka.TCP(servers), Topic: topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll,
		Compression: codec, BatchTimeout: 10 * time.Millisecond}
	var messages []kafka.Message
	var texts []string
	for i := 0; i < count; i++ {
		key, value := fmt.Sprintf("k%d", i), fmt.Sprintf("%s %d %s", word, i, strings.Repeat("x", i%300))
		messages = append(messages, kafka.Message{Key: []byte(key), Value: []byte(value),
			Headers: []kafka.Header{{Key: "word", Value: []byte(word)}}})
		texts = append(texts, key+"|"+value+"|"+word)
	}
	checked.Check(writer.WriteMessages(ctx, messages...), "produce")
	checked.Check(writer.Close(), "close")
	return texts
}

func text(message kafka.Message) string {
	return string(message.Key) + "|" + string(message.Value) + "|" + string(message.Headers[0].Value)
}

// read returns what comes until it is as many and two seconds bring no more.
func read(ctx context.Context, config kafka.ReaderConfig, count int) []string {
	config.Brokers, config.MaxWait = []string{servers}, 500*time.Millisecond
	reader := kafka.NewReader(config)
	var seen []string
	for {
		patience := time.Minute
		if len(seen) >= count {
			patience = 2 * time.Second
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		message, err := reader.FetchMessage(waiting)
		cancel()
		if err == context.DeadlineExceeded {
			break
		}
		checked.Check(err, "fetch")
		seen = append(seen, text(message))
		if config.GroupID != "" && (len(seen)%50 == 0 || len(seen) >= count) {
			checked.Check(reader.CommitMessages(ctx, message), "commit")
		}
	}
	checked.Check(reader.Close(), "close")
	sort.Strings(seen)
	return seen
}

func administration(ctx context.Context, client *kafka.Client, topic string) {
	entry := kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "86400000"}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{entry}}}})
	checked.Check(err, "create topic")
	checked.Check(created.Errors[topic], "create topic")
	changed, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "retention.ms", Value: "3600000", ConfigOperation: kafka.ConfigOperationSet}}}}})
	checked.Check(err, "alter configs")
	checked.Check(changed.Resources[0].Error, "alter configs")
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}}})
	checked.Check(err, "describe configs")
	checked.Expect(described.Resources[0].ConfigEntries[0].ConfigValue, "3600000", "retention.ms")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 110*time.Second)
	defer cancel()
	topic, group := prefix+".plain", prefix+".group"
	client := &kafka.Client{Addr: kafka.TCP(servers), Timeout: 10 * time.Second}
	administration(ctx, client, topic)
	var wanted []string
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		wanted = append(wanted, produce(ctx, topic, codec, codec.String(), 100)...)
	}
	inOrder := append([]string{}, wanted...)
	sort.Strings(wanted)
	grouped := kafka.ReaderConfig{GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset}
	checked.Expect(read(ctx, grouped, len(wanted)), wanted, "records")
	later := produce(ctx, topic, kafka.Zstd, "later", 60)
	sort.Strings(later)
	checked.Expect(read(ctx, grouped, len(later)), later, "records after a stop")

	conn, err := kafka.DialLeader(ctx, "tcp", servers, topic, 0)
	checked.Check(err, "dial")
	first, last, err := conn.ReadOffsets()
	checked.Check(err, "offsets")
	checked.Expect([]int64{first, last}, []int64{0, 560}, "offsets")
	for _, offset := range []int64{0, 137, 399} {
		_, err = conn.Seek(offset, kafka.SeekAbsolute)
		checked.Check(err, "seek")
		message, err := conn.ReadMessage(1 << 20)
		checked.Check(err, "read")
		checked.Expect(message.Offset, offset, "offset")
		checked.Expect(text(message), inOrder[offset], "record by offset")
	}
	checked.Check(conn.Close(), "close")

	deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	checked.Check(err, "delete group")
	checked.Check(deleted.Errors[group], "delete group")
	gone, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	checked.Check(err, "delete topic")
	checked.Check(gone.Errors[topic], "delete topic")
	fmt.Printf("kafka-go: %d records, all is as it should be\n", len(wanted)+len(later))
}
