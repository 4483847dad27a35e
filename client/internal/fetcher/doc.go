// Package fetcher reads partitions, or key ranges of them, for the client: it does what a kgo client does for a consumer, but
// per key range.
//
// A Stream is what is read: a partition, its key ranges and where to begin. Several streams may read one partition. Add makes
// streams and gives each a Token, Next hands out what was fetched, Pause and Resume and Remove do what they say. After Remove
// has returned nothing of the stream is handed out any more, so key ranges change by removing one stream and adding another.
// Read fetches once, beside the streams.
//
// Who does what:
//
//   - A Fetcher has one lock, and no goroutine while nothing is under way. A goroutine per request waits for its answer; another
//     decodes it while the next request is on its way; one asks for metadata while a stream has no known leader.
//   - The requests are our own (no fetch session, KeyRanges and KeyAxisBase on the partitions). kgo clients carry them: they
//     know brokers, versions, TLS, SASL and throttling, and consume nothing themselves.
//   - kgo's decoder makes the records: compression, aborted transactions, checksums.
//
// Memory. A stream is fetched while less than two of its answers wait for Next, so the next one is on its way while one is
// worked on. Nothing is fetched while Config.MaxBuffered bytes wait for Next, those of paused streams not counted. So undecoded
// data takes at most MaxBuffered and one response of MaxBytes for each connection, and up to two responses of a partition for each paused stream.
//
// Two connections to each broker. A broker works on one request of a connection at a time, so who is added, resumed or taken
// during a long poll would have to wait until it ends. Ending it early means to cut the connection, and to dial and
// authenticate again. Therefore a second client, if there is one, carries what comes during the long poll of the first. It does so in
// polls of 50 ms, since somebody who comes still later has to wait for one of them to end. The last of them ends just before the
// first client's does, whose next request takes all of them along; while the second is busy the first polls as shortly, so
// that this happens soon. So at rest there is one request per broker and Config.MaxWait. Without a second client polls
// are short while some stream is left out of them.
//
// A partition is in a request more than once only with key ranges: a gateway answers as often, in the order of the request. Of
// whole partitions, which Kafka knows once in a request, the others take turns.
//
// Not done: rack-aware reads from followers (KIP-392), detection of truncated logs (KIP-320).
package fetcher
