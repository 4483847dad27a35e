package demo

import "time"

// recentTicks is the length of the window for the rates that are shown.
const recentTicks = 10

// meter counts the records that were handled while as many consumers as are
// wanted were at work: not at the start, nor while a killed one is missing, nor
// at the end, when some have nothing left.
type meter struct {
	window  []sample // the last recentTicks+1
	atWork  time.Duration
	records int
	full    bool // as of the last sample
}

type sample struct {
	at      time.Time
	handled map[string]int
}

func (s sample) total() int {
	n := 0
	for _, h := range s.handled {
		n += h
	}
	return n
}

// note takes the consumers' states. One is at work when it finished a record
// less than idle ago.
func (m *meter) note(now time.Time, states []ConsumerState, want int, idle time.Duration) {
	s := sample{now, make(map[string]int, len(states))}
	working := 0
	for i, st := range states {
		s.handled[st.Name] = st.Handled
		states[i].Working = !st.Killed && now.Sub(st.lastEnd) < idle
		if states[i].Working {
			working++
		}
	}
	full := working >= want
	if n := len(m.window); n > 0 && full && m.full {
		last := m.window[n-1]
		m.atWork += now.Sub(last.at)
		m.records += s.total() - last.total()
	}
	m.full = full
	m.window = append(m.window, s)
	if len(m.window) > recentTicks+1 {
		m.window = m.window[1:]
	}
}

// rate is in records per second of full work.
func (m *meter) rate() float64 { return perSecond(m.records, m.atWork) }

// recent is the rate of the last second.
func (m *meter) recent() float64 {
	if len(m.window) == 0 {
		return 0
	}
	first, last := m.window[0], m.window[len(m.window)-1]
	return perSecond(last.total()-first.total(), last.at.Sub(first.at))
}

// rates fills in each consumer's rate of the last second.
func (m *meter) rates(states []ConsumerState) []ConsumerState {
	first, last := m.window[0], m.window[len(m.window)-1]
	for i, s := range states {
		states[i].Rate = perSecond(last.handled[s.Name]-first.handled[s.Name], last.at.Sub(first.at))
	}
	return states
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
