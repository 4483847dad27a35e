// Package peers lets programs that consume one partition do the same work, and says how each did: Tandem's client, a plain consumer, a share group and
// Confluent's Parallel Consumer.
//
// A Work is a list of Tasks: records with a key and the time that handling takes. Start makes a topic of one partition and the Consumers, processes that
// join the group, hold back the first records and wait for "go" on their standard input; Run then has them work. Each process writes what it has
// done to a journal, record by record with its times, and the journals are what is believed: nothing is asked of the consumers about their own speed.
//
// Processes of Tandem's client are this program again (Worker); the others are in src, Java, built by Maven into a temporary folder (Java).
package peers
