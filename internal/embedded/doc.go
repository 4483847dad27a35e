// Package embedded runs a Kafka broker inside the process: franz-go's kfake
// on one node, with a data folder. It owns the folder: its lock, what kfake
// does not keep there by itself, and the repair after a crash.
//
// # What the engine adds to kfake
//
// kfake writes records, committed offsets and producer ids to files before it
// answers, so that they outlive kill -9 of the process. Some things it writes
// on Close only, or not at all; the engine closes those gaps:
//
//   - topics that a Metadata request creates are created durably (kfake keeps
//     such a topic in memory only, and its records with it);
//   - the effect of DeleteRecords and of retention: log starts, and the end of
//     a log that was deleted to its end (see logState);
//   - the offsets of a deleted group;
//   - sequence windows of idempotent and transactional producers, made again
//     from the log after a crash, as Kafka does (see recoverWindows);
//   - a torn last entry of the state logs, which would hide what is appended
//     behind it;
//   - retention of topics that ask for it, which never touches a topic that is
//     compacted only, and compaction, which kfake does by removing segments
//     before it writes the new ones: it happens at Open only, with a copy to
//     return to.
//
// A frame that kfake cannot take (an unknown API key, a size beyond the
// limit) closes its connection before kfake sees it: kfake would end the
// process.
//
// # Goroutines and locks
//
// kfake handles every request in one goroutine. The control functions of this
// package (controls.go) run while that goroutine waits for them, hence never
// at the same time as each other, and may ask the cluster through its Go
// methods. The retention goroutine runs beside them; logState has a mutex of
// its own, held while the file is written.
package embedded
