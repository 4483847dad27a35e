// Package attempts keeps how often records were attempted without success, and when they may be attempted again, beyond the
// life of a process: in the compacted topic __tandem_retries, which all groups share.
//
// A record of the topic is about one record of a group: key and value are JSON, so that any tool can read them. A null value says that
// nothing is to be known of it any more: it is done. A group's records lie in one partition, so that it has to read only that.
//
// The topic is made by the first process that has something to keep. Where that is not allowed, nothing is kept, and a
// record's attempts are counted from 1 again after a restart. What is kept is never needed for a record to be handled: the
// topic may be deleted.
package attempts
