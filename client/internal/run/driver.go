package run

import (
	"cmp"
	"time"

	"github.com/tandem-kafka/tandem/client/internal/executor"
)

// drive carries out what the machine wants until the Runner stops.
func (r *Runner[R]) drive() {
	defer r.serving.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var commits []executor.Commit // to be sent
	var reports []executor.Report // to be told
	committed, reported := make(chan struct{}, 1), make(chan struct{}, 1)
	committing, reporting := false, false
	for {
		r.mu.Lock()
		now := r.now()
		r.m.Tick(now)
		r.recallAll(now-int64(batchLimit), now)
		out := r.m.Output()
		r.wakeOne()
		at := r.wake(now)
		r.armed = at
		for _, rel := range out.Released {
			if c := r.waiting[rel.ID]; c != nil {
				delete(r.waiting, rel.ID)
				c <- rel
			}
		}
		for _, f := range out.Flushed {
			if c := r.flushing[f.ID]; c != nil {
				delete(r.flushing, f.ID)
				c <- r.flushedAs(f)
			}
		}
		r.leave(now)

		if len(out.Flow) > 0 && r.cfg.Flow != nil {
			r.cfg.Flow(out.Flow)
		}
		for _, rr := range out.Rereads {
			r.serving.Go(func() { r.reread(rr) })
		}
		commits = append(commits, out.Commits...)
		if len(commits) > 0 && !committing {
			committing = true
			list := commits
			commits = nil
			r.serving.Go(func() {
				r.commit(list)
				committed <- struct{}{}
			})
		}
		if r.cfg.Report != nil {
			reports = append(reports, out.Reports...)
		}
		if len(reports) > 0 && !reporting {
			reporting = true
			list := reports
			reports = nil
			r.serving.Go(func() {
				r.cfg.Report(list)
				reported <- struct{}{}
			})
		}
		if out.Stopped != nil && r.cfg.Stopped != nil {
			go r.cfg.Stopped(*out.Stopped)
		}

		if at == 0 {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(time.Duration(at - r.now()))
		}
		select {
		case <-r.kick:
		case <-timer.C:
		case <-committed:
			committing = false
		case <-reported:
			reporting = false
		case <-r.ctx.Done():
			return
		}
	}
}

// commit sends commits and tells the machine the answers.
func (r *Runner[R]) commit(list []executor.Commit) {
	errs := r.cfg.Commit(r.ctx, list)
	r.mu.Lock()
	now := r.now()
	r.commitErr = nil
	for _, err := range errs {
		r.commitErr = cmp.Or(r.commitErr, err)
	}
	for i, c := range list {
		r.m.CommitDone(c.ID, i >= len(errs) || errs[i] == nil, now)
	}
	r.wakeOne()
	r.leave(now)
}

// reread brings records that were shed.
func (r *Runner[R]) reread(rr executor.Reread) {
	records, to, err := r.cfg.Reread(r.ctx, rr)
	r.mu.Lock()
	now := r.now()
	if err != nil {
		r.m.RereadFailed(rr.ID, now)
	} else {
		r.m.RereadDone(rr.ID, to, records, now)
	}
	r.wakeOne()
	r.leave(now)
}
