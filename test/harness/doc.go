// Package harness starts what the tests under test/ need: real Kafka clusters, the gateway's own binary, clients of the kit in test/clients
// and consumers in this process; and it judges what they did with a ledger.
//
// Everything started is stopped at the end of the test, also when the test process dies. A test that uses it calls [Need] or one of the
// Start functions first: with -short the test is skipped, and where a tool is missing it fails with the tool's name.
// Packages that share a cluster between their tests run them through [Main].
package harness
