// Command tandem lets several consumers share one Kafka partition, with order
// per key, on any cluster and with any client. This package owns the command
// line: flags, configuration, wiring, signals and exit codes. Results go to
// stdout, everything else to stderr; a failure is one line and exit code 1.
package main
