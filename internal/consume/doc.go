// Package consume owns what tandem consume does with a record: it runs a command with the value on stdin, or posts the value to
// an HTTP endpoint, and says whether that succeeded, failed, or is to be tried again later. Groups, order, retries and dead
// letters are package client's.
package consume
