// Package matrix runs unmodified client libraries on a view and judges the outcome: on real Kafka, on the embedded engine, and, to prove the
// programs and the checks themselves, on a real 16-partition topic in a view's place.
package matrix
