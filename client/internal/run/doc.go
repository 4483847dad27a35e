// Package run runs an executor.Machine: it owns the goroutines, the lock and the clock of the handler mode.
//
// Goroutines of a Runner: up to Handlers workers, made when there is work for them; one driver, which carries out what the
// machine wants and keeps its timer; one for each commit, reread and set of reports under way, so that the driver never
// waits for anybody. All end with Close; a worker whose handler does not return ends when it does.
//
// Locks: Runner.mu guards the machine and the workers' batches, and is never held while a function of the Config runs. A
// task's context has a lock of its own, taken with or without Runner.mu.
//
// Batches. When runs are short, a worker takes many records at once, so that the lock is taken once for all of them. A batch
// is made to take about 100 µs. What a worker has not begun after 1 ms is taken from it for the others, and what is over by
// then counts as done: a record that turns out slow holds up nobody, and no commit.
package run
