// Confluent's API by franz-go's client of registries, and values of its serializers in records.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"tidelog.example/kafka-clients/checked"
)

type order struct {
	ID     int    `json:"id"`
	Amount string `json:"amount"`
}

const schema = `{"type":"object","properties":{"id":{"type":"integer"},"amount":{"type":"string"}},"required":["id"],"additionalProperties":false}`

func main() {
	servers, url, topic := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	checked.Check(err, "the number of records")
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	client, err := sr.NewClient(sr.URLs(url))
	checked.Check(err, "the registry's client")
	subject := topic + "-value"
	made, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: schema, Type: sr.TypeJSON})
	checked.Check(err, "register")
	again, err := client.LookupSchema(ctx, subject, sr.Schema{Schema: schema, Type: sr.TypeJSON})
	checked.Check(err, "look up")
	checked.Expect(again.ID, made.ID, "the id of a look-up")
	latest, err := client.SchemaByVersion(ctx, subject, -1)
	checked.Check(err, "the latest version")
	checked.Expect(latest.Version, 1, "the latest version")
	found, err := client.SchemaByID(ctx, made.ID)
	checked.Check(err, "by id")
	checked.Expect(found.Type, sr.TypeJSON, "the type")
	for _, one := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
		checked.Check(one.Err, "set the compatibility")
	}
	for _, one := range client.Compatibility(ctx, subject) {
		checked.Check(one.Err, "the compatibility")
		checked.Expect(one.Level, sr.CompatFull, "the compatibility")
	}
	fits, err := client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: `{"type":"integer"}`, Type: sr.TypeJSON})
	checked.Check(err, "compare")
	checked.Expect(fits.Is, false, "an integer fits an object")
	subjects, err := client.Subjects(ctx)
	checked.Check(err, "the subjects")
	isThere := false
	for _, one := range subjects {
		isThere = isThere || one == subject
	}
	checked.Expect(isThere, true, "the subject is listed")
	_, err = client.SchemaByID(ctx, 1999999999)
	refused, isRefused := err.(*sr.ResponseError)
	checked.Expect(isRefused && refused.ErrorCode == 40403, true, fmt.Sprintf("an unknown id: %v", err))

	var values sr.Serde
	values.Register(made.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	kafka, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	checked.Check(err, "Kafka's client")
	defer kafka.Close()
	if len(os.Args) > 5 { // the topic is to get the subject's schema
		typed := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "tidelog.value.schema", Value: &subject}}
		altered, err := kadm.NewClient(kafka).AlterTopicConfigs(ctx, typed, topic)
		checked.Check(err, "make the topic typed")
		checked.Check(altered[0].Err, "make the topic typed")
	}
	records := make([]*kgo.Record, count)
	for number := range records {
		value, err := values.Encode(order{ID: number, Amount: "3.50"})
		checked.Check(err, "encode")
		records[number] = &kgo.Record{Topic: topic, Value: value}
	}
	checked.Check(kafka.ProduceSync(ctx, records...).FirstErr(), "produce")
	sum, got := 0, 0
	for got < count {
		fetched := kafka.PollFetches(ctx)
		checked.Check(fetched.Err0(), "fetch")
		fetched.EachRecord(func(one *kgo.Record) {
			var value order
			checked.Check(values.Decode(one.Value, &value), "decode")
			sum += value.ID
			got++
		})
	}
	checked.Expect(sum, count*(count-1)/2, "the sum")
	fmt.Println("all is as it should be")
}
