package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// API keys that the gateway treats in some way of its own; all others pass as
// bytes.
const (
	Produce                 int16 = 0
	Fetch                   int16 = 1
	ListOffsets             int16 = 2
	Metadata                int16 = 3
	OffsetCommit            int16 = 8
	OffsetFetch             int16 = 9
	FindCoordinator         int16 = 10
	JoinGroup               int16 = 11
	Heartbeat               int16 = 12
	LeaveGroup              int16 = 13
	SASLHandshake           int16 = 17
	APIVersions             int16 = 18
	DeleteTopics            int16 = 20
	DeleteRecords           int16 = 21
	OffsetForLeaderEpoch    int16 = 23
	AddPartitionsToTxn      int16 = 24
	TxnOffsetCommit         int16 = 28
	DescribeConfigs         int16 = 32
	AlterConfigs            int16 = 33
	CreatePartitions        int16 = 37
	DeleteGroups            int16 = 42
	IncrementalAlterConfigs int16 = 44
	OffsetDelete            int16 = 47
	DescribeCluster         int16 = 60
	ConsumerGroupHeartbeat  int16 = 68
	DescribeTopicPartitions int16 = 75
	ShareGroupHeartbeat     int16 = 76
	ShareFetch              int16 = 78
	ShareAcknowledge        int16 = 79
	streamsGroupHeartbeat   int16 = 88
	streamsGroupDescribe    int16 = 89
)

// opaque APIs are unknown to kmsg, hold no broker address, and pass as bytes in
// the versions named here. An address inside a version that is not known could
// lead a client past the gateway, so later ones are hidden.
var opaque = map[int16]int16{
	streamsGroupHeartbeat: 1,
	streamsGroupDescribe:  1,
}

// internal APIs are spoken between brokers and controllers only.
var internal = map[int16]bool{
	4: true, 5: true, 6: true, 7: true, // LeaderAndISR, StopReplica, UpdateMetadata, ControlledShutdown
	52: true, 53: true, 54: true, 56: true, 58: true, 59: true, // quorum, AlterPartition, Envelope, FetchSnapshot
	62: true, 63: true, 67: true, 70: true, 73: true, 82: true, // broker and controller registration
}

// MaxVersion returns the highest version of an API that the gateway lets
// through, and whether it lets the API through at all.
func MaxVersion(key int16) (int16, bool) {
	if v, ok := opaque[key]; ok {
		return v, true
	}
	req := kmsg.RequestForKey(key)
	if req == nil || internal[key] {
		return 0, false
	}
	return req.MaxVersion(), true
}

// MinVersion returns the lowest version the gateway accepts. SaslHandshake v0
// is followed by frames without a request header, which nobody has sent since
// Kafka 1.0.
func MinVersion(key int16) int16 {
	if key == SASLHandshake {
		return 1
	}
	return 0
}

// Clamp narrows a broker's version range to what the gateway lets through; ok
// is false where nothing is left and the API is to be hidden.
func Clamp(key, lowest, highest int16) (newLowest, newHighest int16, ok bool) {
	limit, ok := MaxVersion(key)
	if !ok {
		return 0, 0, false
	}
	lowest, highest = max(lowest, MinVersion(key)), min(highest, limit)
	return lowest, highest, lowest <= highest
}
