// Package done keeps track of which offsets of one partition are done, for one set of key ranges, and says what to commit.
//
// A Tracker is told in order which offsets hold a record of its key ranges and up to where there is nothing else, and in any
// order which of them are done. So it knows for every offset whether anything is left to do there: offsets without a record
// of its key ranges count as done. What it cuts for a commit is therefore dense: a watermark, below which all is done, and
// above it the longest offset ranges around what was done since the commit before.
//
// A Filter tells which records a group has committed already, from the ranges that OffsetFetch answered.
//
// Memory grows with what is not done and with the ranges to commit, not with what is done.
//
// The package is pure. Trackers and Filters are not safe for concurrent use.
package done
