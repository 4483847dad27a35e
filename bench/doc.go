// Command bench measures the gateway against plain Kafka and writes docs/benchmarks.md.
//
//	go run ./bench              all tables
//	go run ./bench pass view    some of them
//	go run ./bench -list        their names
//	go run ./bench peers zipf   the table peers-zipf; without a name all of peers-
//
// It starts a real Kafka broker (test/kafka) and bin/tandem, and is the client itself. What is compared runs in turns
// (direct, gateway, direct, ...) and the median of the turns counts, so that a machine that gets slower for a while
// hurts both sides. Results are kept in bench/results.json, table by table, with the machine and the commit they were
// measured on; docs/benchmarks.md is rendered from it between markers. Trials (-scale other than 1, less than 3 rounds, or
// with -profile) write nothing. bench/run does the same from any folder.
package main
