package client

import (
	"errors"
	"fmt"

	"github.com/tandem-kafka/tandem/client/internal/transact"
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("client: closed")

// ErrStarted is returned by Run when Run or Poll was called before.
var ErrStarted = errors.New("client: Run or Poll was called already")

// ErrNotAssigned says that records that were to be committed are not this client's any more, were committed before, or never
// polled: nothing was committed of them. The others are.
var ErrNotAssigned = errors.New("client: not this client's to commit")

// ErrNoGateway says that ShareByKey, ShareByRecord, or key ranges of Assign were asked for, and that the addresses of Bootstrap are of no Tandem gateway.
var ErrNoGateway = errors.New("client: ShareByKey, ShareByRecord and key ranges need a Tandem gateway, and there is none behind the addresses of Bootstrap: name a gateway's, " +
	"or carry one in the process with client.InProcess, or leave the option away for whole partitions")

// ErrNotTransactional is returned by Record.Produce where there is no transaction to write in.
var ErrNotTransactional = errors.New("client: no transaction: Produce is for handlers, while they run, of a client with client.Transactional")

// ErrFenced is Run's error, and Poll's, when another process has begun with the same transactional id. Kafka tells
// a process that at its next transaction: one that has nothing to write goes on, and has its part of the group, until then.
var ErrFenced = transact.ErrFenced

// StoppedError is Run's error when a record was given up and StopOnFailure holds.
type StoppedError struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Attempts  int
	Err       error // the handler's last
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("client: stopped at topic %s, partition %d, offset %d, key %q, after %d attempts: %v", e.Topic, e.Partition, e.Offset, e.Key, e.Attempts, e.Err)
}

func (e *StoppedError) Unwrap() error { return e.Err }
