// What a program of sarama does: administration, five codecs, a group that stops and goes on, transactions.
//
// Arguments: bootstrap servers, prefix of topics and groups.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"tidelog.example/kafka-clients/checked"
)

const consumers = 60 * time.Second

var servers, prefix = os.Args[1], os.Args[2]

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func records(topic, word string, start, end int) ([]*sarama.ProducerMessage, []string) {
	var messages []*sarama.ProducerMessage
	var texts []string
	for i := start; i < end; i++ {
		key, value := fmt.Sprintf("k%d", i), fmt.Sprintf("%s %d %s", word, i, strings.Repeat("x", i%300))
		header := sarama.RecordHeader{Key: []byte("word"), Value: []byte(word)}
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(key),
			Value: sarama.StringEncoder(value), Headers: []sarama.RecordHeader{header}})
		texts = append(texts, key+"|"+value+"|"+word)
	}
	return messages, texts
}

func produce(config *sarama.Config, messages []*sarama.ProducerMessage) {
	producer, err := sarama.NewSyncProducer([]string{servers}, config)
	checked.Check(err, "producer")
	checked.Check(producer.SendMessages(messages), "produce")
	checked.Check(producer.Close(), "close")
}

type handler struct {
	sync.Mutex
	seen   []string
	wanted int
	done   context.CancelFunc
}

func (*handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.Lock()
			h.seen = append(h.seen, string(message.Key)+"|"+string(message.Value)+"|"+string(message.Headers[0].Value))
			last := len(h.seen) >= h.wanted
			h.Unlock()
			if last {
				time.AfterFunc(2*time.Second, h.done) // none is too many
			}
			session.MarkMessage(message, "")
			if message.Offset%50 == 49 || last {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// read returns what comes in the group, in order.
func read(group, topic string, wanted int) []string {
	consumer, err := sarama.NewConsumerGroup([]string{servers}, group, settings())
	checked.Check(err, "group")
	ctx, cancel := context.WithTimeout(context.Background(), consumers)
	defer cancel()
	h := &handler{wanted: wanted, done: cancel}
	for ctx.Err() == nil {
		checked.Check(consumer.Consume(ctx, []string{topic}, h), "consume")
	}
	checked.Check(consumer.Close(), "close")
	sort.Strings(h.seen)
	return h.seen
}

func administration(admin sarama.ClusterAdmin, topic string) {
	retention, shorter := "86400000", "3600000"
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	checked.Check(admin.CreateTopic(topic, detail, false), "create topic")
	checked.Check(admin.CreatePartitions(topic, 3, nil, false), "create partitions")
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &shorter}}
	checked.Check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false), "alter config")
	value := ""
	for until := time.Now().Add(5 * time.Second); value != shorter && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		found, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
		checked.Check(err, "describe config")
		value = found[0].Value // a broker learns of it a little later
	}
	checked.Expect(value, shorter, "retention.ms")
	topics, err := admin.ListTopics()
	checked.Check(err, "list topics")
	checked.Expect(topics[topic].NumPartitions, 3, "partitions")
}

func transactions(topic string) []string {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = prefix + ".id"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{servers}, config)
	checked.Check(err, "transactional producer")
	var wanted []string
	for round := 0; round < 9; round++ {
		checked.Check(producer.BeginTxn(), "begin")
		messages, texts := records(topic, "transaction", round*20, round*20+20)
		checked.Check(producer.SendMessages(messages), "produce")
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(round + 1)}}}
		checked.Check(producer.AddOffsetsToTxn(offsets, prefix+".transfer"), "offsets")
		if round%3 == 2 {
			checked.Check(producer.AbortTxn(), "abort")
		} else {
			checked.Check(producer.CommitTxn(), "commit")
			wanted = append(wanted, texts...)
		}
	}
	checked.Check(producer.Close(), "close")
	return wanted
}

func main() {
	plain, transacted, group := prefix+".plain", prefix+".transacted", prefix+".group"
	admin, err := sarama.NewClusterAdmin([]string{servers}, settings())
	checked.Check(err, "admin")
	administration(admin, plain)
	var wanted []string
	for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
		for _, idempotent := range []bool{false, true} {
			config := settings()
			config.Producer.Compression = codec
			config.Producer.Idempotent = idempotent
			if idempotent {
				config.Net.MaxOpenRequests = 1
			}
			messages, texts := records(plain, fmt.Sprint(codec, idempotent), 0, 100)
			produce(config, messages)
			wanted = append(wanted, texts...)
		}
	}
	sort.Strings(wanted)
	checked.Expect(read(group, plain, len(wanted)), wanted, "records")
	messages, later := records(plain, "later", 0, 60)
	produce(settings(), messages)
	sort.Strings(later)
	checked.Expect(read(group, plain, len(later)), later, "records after a stop")

	checked.Check(admin.CreateTopic(transacted, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1}, false), "create topic")
	committed := transactions(transacted)
	sort.Strings(committed)
	checked.Expect(read(prefix+".reader", transacted, len(committed)), committed, "committed records")
	offsets, err := admin.ListConsumerGroupOffsets(prefix+".transfer", map[string][]int32{transacted: {0}})
	checked.Check(err, "offsets")
	checked.Expect(offsets.GetBlock(transacted, 0).Offset, 8, "offset of a transaction")

	groups, err := admin.ListConsumerGroups()
	checked.Check(err, "groups")
	checked.Expect(groups[group], "consumer", "group")
	described, err := admin.DescribeConsumerGroups([]string{group})
	checked.Check(err, "describe group")
	checked.Expect(described[0].State, "Empty", "state")
	checked.Check(admin.DeleteConsumerGroup(group), "delete group")
	client, err := sarama.NewClient([]string{servers}, settings())
	checked.Check(err, "client")
	end, err := client.GetOffset(plain, 0, sarama.OffsetNewest)
	checked.Check(err, "end")
	checked.Check(admin.DeleteRecords(plain, map[int32]int64{0: end}), "delete records")
	start, err := client.GetOffset(plain, 0, sarama.OffsetOldest)
	checked.Check(err, "start")
	checked.Expect(start, end, "start")
	checked.Check(admin.DeleteTopic(plain), "delete topic")
	fmt.Printf("sarama: %d records, all is as it should be\n", len(wanted)+len(later))
}
