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
)

const consumers = 60 * time.Second

var servers, prefix = os.Args[1], os.Args[2]

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(found, wanted any, what string) {
	if found, wanted := fmt.Sprint(found), fmt.Sprint(wanted); found != wanted {
		check(fmt.Errorf("%.150s (%d bytes) instead of %.150s (%d bytes)", found, len(found), wanted, len(wanted)), what)
	}
}

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
	check(err, "producer")
	check(producer.SendMessages(messages), "produce")
	check(producer.Close(), "close")
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
	check(err, "group")
	ctx, cancel := context.WithTimeout(context.Background(), consumers)
	defer cancel()
	h := &handler{wanted: wanted, done: cancel}
	for ctx.Err() == nil {
		check(consumer.Consume(ctx, []string{topic}, h), "consume")
	}
	check(consumer.Close(), "close")
	sort.Strings(h.seen)
	return h.seen
}

func administration(admin sarama.ClusterAdmin, topic string) {
	retention, shorter := "86400000", "3600000"
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	check(admin.CreateTopic(topic, detail, false), "create topic")
	check(admin.CreatePartitions(topic, 3, nil, false), "create partitions")
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &shorter}}
	check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false), "alter config")
	value := ""
	for until := time.Now().Add(5 * time.Second); value != shorter && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		found, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
		check(err, "describe config")
		value = found[0].Value // a broker learns of it a little later
	}
	expect(value, shorter, "retention.ms")
	topics, err := admin.ListTopics()
	check(err, "list topics")
	expect(topics[topic].NumPartitions, 3, "partitions")
}

func transactions(topic string) []string {
	config := settings()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = prefix + ".id"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{servers}, config)
	check(err, "transactional producer")
	var wanted []string
	for round := 0; round < 9; round++ {
		check(producer.BeginTxn(), "begin")
		messages, texts := records(topic, "transaction", round*20, round*20+20)
		check(producer.SendMessages(messages), "produce")
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(round + 1)}}}
		check(producer.AddOffsetsToTxn(offsets, prefix+".transfer"), "offsets")
		if round%3 == 2 {
			check(producer.AbortTxn(), "abort")
		} else {
			check(producer.CommitTxn(), "commit")
			wanted = append(wanted, texts...)
		}
	}
	check(producer.Close(), "close")
	return wanted
}

func main() {
	plain, transacted, group := prefix+".plain", prefix+".transacted", prefix+".group"
	admin, err := sarama.NewClusterAdmin([]string{servers}, settings())
	check(err, "admin")
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
	expect(read(group, plain, len(wanted)), wanted, "records")
	messages, later := records(plain, "later", 0, 60)
	produce(settings(), messages)
	sort.Strings(later)
	expect(read(group, plain, len(later)), later, "records after a stop")

	check(admin.CreateTopic(transacted, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1}, false), "create topic")
	committed := transactions(transacted)
	sort.Strings(committed)
	expect(read(prefix+".reader", transacted, len(committed)), committed, "committed records")
	offsets, err := admin.ListConsumerGroupOffsets(prefix+".transfer", map[string][]int32{transacted: {0}})
	check(err, "offsets")
	expect(offsets.GetBlock(transacted, 0).Offset, 8, "offset of a transaction")

	groups, err := admin.ListConsumerGroups()
	check(err, "groups")
	expect(groups[group], "consumer", "group")
	described, err := admin.DescribeConsumerGroups([]string{group})
	check(err, "describe group")
	expect(described[0].State, "Empty", "state")
	check(admin.DeleteConsumerGroup(group), "delete group")
	client, err := sarama.NewClient([]string{servers}, settings())
	check(err, "client")
	end, err := client.GetOffset(plain, 0, sarama.OffsetNewest)
	check(err, "end")
	check(admin.DeleteRecords(plain, map[int32]int64{0: end}), "delete records")
	start, err := client.GetOffset(plain, 0, sarama.OffsetOldest)
	check(err, "start")
	expect(start, end, "start")
	check(admin.DeleteTopic(plain), "delete topic")
	fmt.Printf("sarama: %d records, all is as it should be\n", len(wanted)+len(later))
}
