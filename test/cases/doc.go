// Package cases holds the scenarios that users of such systems reported, each with the right outcome here: unmodified clients through a
// gateway process, on the embedded engine and on Kafka. docs/cases.md lists them; the comment of each test names its case.
//
// A new case runs on engines(t, ...), which gives it a gateway on the embedded engine and one in front of the Kafka that all cases share, or, if
// Kafka alone matters, it calls t.Parallel and takes onKafka(t, ...) or ways(t, ...). It then runs beside two others. What it may not do is to
// disturb the shared brokers; one that kills its broker starts a cluster with harness.StartKafka. A case that measures (a rate, a ratio, a delay of less
// than seconds) or takes brokers of the cluster of three down runs alone: on enginesAlone(t, ...), or without t.Parallel.
package cases
