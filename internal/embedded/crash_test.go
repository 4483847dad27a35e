package embedded

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCrashKeepsCreatedTopics(t *testing.T) {
	e := open(t, Options{})
	produce(t, client(t, e), "orders", 0, 5) // created by the client's metadata request
	e = open(t, Options{Dir: afterCrash(t, e)})
	if got := readAll(t, e, "orders"); len(got) != 5 {
		t.Errorf("records %v, want 5", got)
	}
}

func TestCrashKeepsDeletedRecordsDeleted(t *testing.T) {
	for _, c := range []struct {
		name               string
		to                 int64
		wantStart, wantEnd int64
	}{
		{"some", 4, 4, 10},
		{"to the end", 10, 10, 10},
		{"all by -1", -1, 10, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, Options{})
			cl := client(t, e)
			produce(t, cl, "orders", 0, 10)
			deleteTo(t, cl, "orders", c.to)
			check := func(e *Engine, wantEnd int64) {
				t.Helper()
				if start, end := offsets(t, client(t, e), "orders"); start != c.wantStart || end != wantEnd {
					t.Fatalf("log [%d, %d), want [%d, %d)", start, end, c.wantStart, wantEnd)
				}
			}
			check(e, c.wantEnd)
			e = open(t, Options{Dir: afterCrash(t, e)})
			check(e, c.wantEnd)
			dir := e.Dir()
			e.Close() // kfake does not keep the end of an empty log over Close either
			e = open(t, Options{Dir: dir})
			check(e, c.wantEnd)
			produce(t, client(t, e), "orders", 10, 12)
			e = open(t, Options{Dir: afterCrash(t, e)})
			check(e, c.wantEnd+2)
			if got := readAll(t, e, "orders"); got[len(got)-1] != "11" {
				t.Errorf("last record %v", got)
			}
		})
	}
}

func deleteTo(t *testing.T, cl *kgo.Client, topic string, to int64) {
	t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, to, -1)
	resp, err := kadm.NewClient(cl).DeleteRecords(testContext(t), os)
	if err := errors.Join(err, resp.Error()); err != nil {
		t.Fatal(err)
	}
}

func TestDeleteRecordsAnswers(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	produce(t, cl, "orders", 0, 10)
	for _, c := range []struct {
		topic     string
		partition int32
		offset    int64
		want      string
	}{
		{"orders", 0, 5, "5 0"},
		{"orders", 0, 3, "5 0"},
		{"orders", 0, 11, "-1 1"},
		{"orders", 0, -2, "-1 1"},
		{"orders", 1, 0, "-1 3"},
		{"none", 0, 0, "-1 3"},
	} {
		req := kmsg.NewPtrDeleteRecordsRequest()
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = c.topic
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = c.partition, c.offset
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := cl.Broker(0).RetriableRequest(testContext(t), req)
		if err != nil {
			t.Fatal(err)
		}
		p := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		if got := fmt.Sprint(p.LowWatermark, " ", p.ErrorCode); got != c.want {
			t.Errorf("%s-%d to %d: low watermark and error %s, want %s", c.topic, c.partition, c.offset, got, c.want)
		}
	}
}

func TestRecreatedTopicStartsAnew(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	produce(t, cl, "orders", 0, 10)
	deleteTo(t, cl, "orders", -1)
	adm := kadm.NewClient(cl)
	if resp, err := adm.DeleteTopics(testContext(t), "orders"); errors.Join(err, resp.Error()) != nil {
		t.Fatal(err, resp.Error())
	}
	if _, err := adm.CreateTopic(testContext(t), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	e = open(t, Options{Dir: afterCrash(t, e)})
	if start, end := offsets(t, client(t, e), "orders"); start != 0 || end != 0 {
		t.Errorf("log [%d, %d), want it empty from 0", start, end)
	}
}

func TestCrashKeepsDeletedGroupsDeleted(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	produce(t, cl, "orders", 0, 3)
	commit(t, cl, "g", "orders", 3)
	commit(t, cl, "other", "orders", 2)
	if resp, err := kadm.NewClient(cl).DeleteGroups(testContext(t), "g"); errors.Join(err, resp.Error()) != nil {
		t.Fatal(err, resp.Error())
	}
	e = open(t, Options{Dir: afterCrash(t, e)})
	cl = client(t, e)
	if got := committed(t, cl, "g", "orders"); got != -1 {
		t.Errorf("offset %d of a deleted group came back", got)
	}
	if got := committed(t, cl, "other", "orders"); got != 2 {
		t.Errorf("other group at %d, want 2", got)
	}
}

// A batch that was written but not answered when the process was killed comes
// again from the same producer.
func TestCrashKeepsProducerSequences(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e, kgo.ProducerBatchMaxBytes(1<<20))
	produce(t, cl, "orders", 0, 8) // 8 batches
	pid, epoch, err := cl.ProducerID(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	e = open(t, Options{Dir: afterCrash(t, e)})
	send := func(seq int32, value string) *kmsg.ProduceResponseTopicPartition {
		t.Helper()
		return produceBatch(t, client(t, e), "orders", pid, epoch, seq, value)
	}
	if p := send(7, "7"); p.ErrorCode != 0 || p.BaseOffset != 7 {
		t.Errorf("the last batch again: offset %d, error %d; want the old offset 7", p.BaseOffset, p.ErrorCode)
	}
	if p := send(9, "9"); p.ErrorCode != 45 {
		t.Errorf("a gap in the sequence: error %d, want OUT_OF_ORDER_SEQUENCE_NUMBER", p.ErrorCode)
	}
	if p := send(8, "8"); p.ErrorCode != 0 || p.BaseOffset != 8 {
		t.Errorf("the next batch: offset %d, error %d", p.BaseOffset, p.ErrorCode)
	}
	if got := readAll(t, e, "orders"); fmt.Sprint(got) != "[0 1 2 3 4 5 6 7 8]" {
		t.Errorf("records %v", got)
	}
}

func TestTornStateEntry(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	produce(t, cl, "orders", 0, 3)
	commit(t, cl, "g", "orders", 1)
	dir := afterCrash(t, e)
	f, err := os.OpenFile(filepath.Join(dir, "groups.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("\x50\x00\x00\x00torn"))
	f.Close()
	e = open(t, Options{Dir: dir})
	commit(t, client(t, e), "g", "orders", 2)
	e = open(t, Options{Dir: afterCrash(t, e)})
	if got := committed(t, client(t, e), "g", "orders"); got != 2 {
		t.Errorf("committed %d, want 2: what came behind the torn entry is lost", got)
	}
}

func TestTransactionOpenAtCrashIsAborted(t *testing.T) {
	e := open(t, Options{})
	produce(t, client(t, e), "orders", 0, 2)
	tx := client(t, e, kgo.TransactionalID("tx"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, tx, "orders", 2, 4)
	e = open(t, Options{Dir: afterCrash(t, e)})
	produce(t, client(t, e), "orders", 4, 5)
	if got := readAll(t, e, "orders", kgo.FetchIsolationLevel(kgo.ReadCommitted())); fmt.Sprint(got) != "[0 1 4]" {
		t.Errorf("committed records %v, want [0 1 4]", got)
	}
}

func TestRetention(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	adm := kadm.NewClient(cl)
	for topic, configs := range map[string]map[string]string{
		"aged":      {"retention.ms": "1000"},
		"sized":     {"retention.bytes": "200"},
		"compacted": {"cleanup.policy": "compact", "retention.ms": "1000"},
		"plain":     nil,
	} {
		cs := map[string]*string{}
		for k, v := range configs {
			cs[k] = &v
		}
		if _, err := adm.CreateTopic(testContext(t), 1, 1, cs, topic); err != nil {
			t.Fatal(err)
		}
		produce(t, cl, topic, 0, 6)
	}
	e.applyRetention(time.Now().Add(time.Hour).UnixMilli())
	check := func(e *Engine) {
		t.Helper()
		for topic, want := range map[string]int64{"aged": 6, "sized": 4, "compacted": 0, "plain": 0} {
			start, end := offsets(t, client(t, e), topic)
			if topic == "sized" && (start == 0 || start == 6) || topic != "sized" && start != want || end != 6 {
				t.Errorf("%s: log [%d, %d), want start %d, end 6", topic, start, end, want)
			}
		}
	}
	check(e)
	check(open(t, Options{Dir: afterCrash(t, e)}))
}

func TestCompaction(t *testing.T) {
	e := open(t, Options{})
	cl := client(t, e)
	policy := "compact"
	if _, err := kadm.NewClient(cl).CreateTopic(testContext(t), 1, 1, map[string]*string{"cleanup.policy": &policy}, "table"); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "table", 0, 9) // three keys
	crashed := afterCrash(t, e)

	// A crash in the middle of the compaction: some files gone, the copy whole.
	half := afterCrash(t, e)
	f := folder{dir: half}
	if err := f.linkLogs([]string{f.partition("table", 0)}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.partition("table", 0), segmentName(0))); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"whole": crashed, "interrupted": half} {
		e := open(t, Options{Dir: dir})
		if got := readAll(t, e, "table"); fmt.Sprint(got) != "[5 6 7 8]" && fmt.Sprint(got) != "[6 7 8]" {
			t.Errorf("%s: table %v, want the last value of each key", name, got)
		}
		if _, end := offsets(t, client(t, e), "table"); end != 9 {
			t.Errorf("%s: end %d, want 9", name, end)
		}
	}
}

func produceBatch(t *testing.T, cl *kgo.Client, topic string, pid int64, epoch int16, seq int32, value string) *kmsg.ProduceResponseTopicPartition {
	t.Helper()
	rec := kmsg.Record{Value: []byte(value)}
	body := rec.AppendTo(nil)
	rec.Length = int32(len(body) - 1)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: 1, MaxTimestamp: 1,
		ProducerID: pid, ProducerEpoch: epoch, FirstSequence: seq, NumRecords: 1, Records: rec.AppendTo(nil),
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[21:], castagnoli))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	meta, err := kadm.NewClient(cl).Metadata(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	rt.TopicID = meta.Topics[topic].ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch.AppendTo(nil)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Broker(0).RetriableRequest(testContext(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return &resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}
