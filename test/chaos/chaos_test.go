package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, 1) }

// consumers are the members of a group: with their own, cooperative assignor, or a mixture of libraries that share one.
func consumers(seed uint64) (kinds []string, assignor string) {
	switch seed % 3 {
	case 0:
		return []string{"franz-go"}, ""
	case 1:
		return []string{"franz-go", "franz-go", "confluent-kafka"}, "range"
	}
	return []string{"franz-go", "confluent-kafka", "sarama", "kafkajs", "java"}, "range"
}

func killRounds(t *testing.T, seed uint64, c setting) {
	c.kinds, c.assignor = consumers(seed)
	c.members = 4
	play(t, seed, c)
}

// kill -9 of the gateway, of members and of brokers, and frozen members, at random moments.
func TestKillRounds(t *testing.T) {
	t.Parallel()
	killRounds(t, chance(t), setting{gateways: 1, rounds: 4})
}

// Two gateways on one cluster, the members of a group spread over both; one of them is killed for good.
func TestOneOfTwoGatewaysDies(t *testing.T) {
	t.Parallel()
	killRounds(t, chance(t), setting{gateways: 2, rounds: 1, lose: true})
}

// Exactly once under kills: the output of a group that consumes a view and produces in transactions holds each record once.
// (Producers that abort are slow; they are in the soak.)
func TestTransactionsUnderKills(t *testing.T) {
	t.Parallel()
	play(t, chance(t), setting{gateways: 1, rounds: 2, members: 3, program: confluentTransact})
}

// Exactly once by Tandem's own client, which shares two partitions by keys.
func TestSharersInTransactionsUnderKills(t *testing.T) {
	t.Parallel()
	play(t, chance(t), setting{gateways: 2, rounds: 3, members: 3, shared: true, program: goTransact})
}

// kill -9 of processes with Tandem's own client that share two partitions by keys, of the gateways between and beside them, and of brokers.
func TestSharersUnderKills(t *testing.T) {
	t.Parallel()
	shareRounds(t, chance(t), setting{gateways: 2, rounds: 4})
}

// Alone, since other scenes kill brokers. Where only members die, what comes again is what they had in hand or did since their last commit.
func TestSharersThatAreKilled(t *testing.T) {
	shareRounds(t, chance(t), setting{gateways: 1, rounds: 2, calm: true})
}

func shareRounds(t *testing.T, seed uint64, c setting) {
	c.kinds, c.members, c.shared = sharers(seed), 4, true
	play(t, seed, c)
}

// kill -9, freezes, joins and leaves of processes with Tandem's own client that share two partitions by record, of gateways and of brokers (case C12).
func TestSharersByRecordUnderKills(t *testing.T) {
	t.Parallel()
	recordRounds(t, chance(t), setting{gateways: 2, rounds: 4, byRecord: 5 * time.Second})
}

func recordRounds(t *testing.T, seed uint64, c setting) {
	c.members, c.shared = 4, true
	if c.byRecord == 0 {
		c.byRecord = sessions(seed)
	}
	play(t, seed, c)
}

// The same, again and again.
func TestSoakSharersByRecord(t *testing.T) {
	soak(t, 5, func(t *testing.T, n, seed uint64) { recordRounds(t, seed, shared(n)) })
}

// Rounds of members that share by keys, again and again.
func TestSoakSharers(t *testing.T) {
	soak(t, 10, func(t *testing.T, n, seed uint64) { shareRounds(t, seed, shared(n)) })
}

// shared is the nth scene of a soak of members that share partitions.
func shared(n uint64) setting {
	return setting{gateways: 1 + int(n%2), rounds: 10, aborts: n%4 == 2, lose: n%4 == 1, calm: n%5 == 4}
}

// The rounds with one gateway and with two, with transactional producers and without, again and again.
func TestSoakKillRounds(t *testing.T) {
	soak(t, 10, func(t *testing.T, n, seed uint64) {
		killRounds(t, seed, setting{gateways: 1 + int(n%2), rounds: 10, aborts: n%4 == 3, lose: n%4 == 1})
	})
}

// All programs with transactions in turn, again and again until the test's share of the soak is used up.
func TestSoakTransactions(t *testing.T) {
	limit := harness.Until(harness.Soak(t, 15))
	programs := []*program{javaTransact, streamsTransact, java848Transact, confluentTransact}
	seed := chance(t)
	for i := uint64(0); limit(); i++ {
		p, turn := programs[i%4], i/4
		t.Run(fmt.Sprintf("%s, seed %d", p.name, seed+i), func(t *testing.T) {
			play(t, seed+i, setting{gateways: 1 + int(seed+turn)%2, rounds: 4, members: 3, aborts: (seed+turn)/2%2 == 0, program: p, lose: (seed+turn)%4 == 3})
		})
	}
}

// Tandem's own client in transactions, again and again.
func TestSoakSharersInTransactions(t *testing.T) {
	soak(t, 10, func(t *testing.T, n, seed uint64) {
		play(t, seed, setting{gateways: 1 + int(n%2), rounds: 10, members: 4, shared: true, aborts: n%4 == 2, lose: n%4 == 1, program: goTransact})
	})
}

// soak plays scenes from seeds that follow each other until the test's share of the soak, in percent, is used up.
func soak(t *testing.T, share int, scene func(t *testing.T, n, seed uint64)) {
	t.Helper()
	limit, first := harness.Until(harness.Soak(t, share)), chance(t)
	for n := uint64(0); limit(); n++ {
		t.Run(fmt.Sprintf("seed %d", first+n), func(t *testing.T) { scene(t, n, first+n) })
	}
}

// The judge finds nothing wrong with Kafka itself: the same rounds on a real topic of 16 partitions, without a gateway.
func TestKillRoundsOnKafkaItself(t *testing.T) {
	harness.Need(t)
	harness.OnlyWith(t, "TANDEM_KIT", "proves the judge on Kafka itself")
	seed := chance(t)
	t.Run("consumers", func(t *testing.T) { killRounds(t, seed, setting{rounds: 10}) })
	t.Run("transactions", func(t *testing.T) {
		play(t, seed, setting{rounds: 4, members: 3, aborts: true, program: confluentTransact})
	})
}
