// Package cases holds the scenarios that users of such systems reported, each with the right outcome here: unmodified clients through a
// gateway process, on the embedded engine and on Kafka. docs/cases.md lists them; the comment of each test names its case.
package cases
