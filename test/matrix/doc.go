// Package matrix runs unmodified client libraries on a view and judges the outcome. Its functions are the client matrix of test/realkafka
// and test/embedded; its own test runs them on a real 16-partition topic in a view's place, which proves the programs and the checks.
package matrix
