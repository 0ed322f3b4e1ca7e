// What a program of franz-go does: it makes a topic, produces, consumes in a group, commits, and describes what it did.
//
// Arguments: bootstrap servers, topic, number of records.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func main() {
	servers, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	check(err, "count")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	producer, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.DefaultProduceTopic(topic))
	check(err, "client")
	admin := kadm.NewClient(producer)
	retention := "3600000"
	_, err = admin.CreateTopic(ctx, 4, -1, map[string]*string{"retention.ms": &retention}, topic)
	check(err, "create topic")
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err, "describe configs")
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" && *config.Value != retention {
			check(fmt.Errorf("retention.ms is %s", *config.Value), "describe configs")
		}
	}
	for i := 0; i < count; i++ {
		record := &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: []byte("v" + strconv.Itoa(i))}
		record.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err, "produce") })
	}
	check(producer.Flush(ctx), "flush")

	consumer, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.ConsumerGroup("franz-"+topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	check(err, "consumer")
	seen := map[string]bool{}
	for len(seen) < count {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err0(), "poll")
		fetches.EachError(func(_ string, _ int32, err error) { check(err, "fetch") })
		fetches.EachRecord(func(record *kgo.Record) {
			if "v"+string(record.Key) != string(record.Value) || len(record.Headers) != 1 {
				check(fmt.Errorf("record %s is %s", record.Key, record.Value), "consume")
			}
			seen[string(record.Key)] = true
		})
	}
	check(consumer.CommitUncommittedOffsets(ctx), "commit")
	lags, err := admin.Lag(ctx, "franz-"+topic)
	check(err, "lag")
	lag := lags["franz-"+topic].Lag.Total()
	if lag != 0 {
		check(fmt.Errorf("lag is %d", lag), "lag")
	}
	consumer.Close()
	producer.Close()
	fmt.Printf("%d records\n", len(seen))
}
