package executor

func (s state) isReady() bool { return s == ready }

// clean reports whether everything is committed.
func (p *partition[R]) clean() bool {
	for _, h := range p.holdings {
		if h.sent != nil || h.dirty() || h.stage != active || h.track.Undone() > 0 {
			return false
		}
	}
	return true
}
