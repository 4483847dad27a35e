package acquire

import "fmt"

// Kind says what an entry is.
type Kind uint8

// The kinds of entries.
const (
	Acquisition Kind = iota
	Session
)

// Entry is what one record of the log says.
type Entry struct {
	Kind Kind
	Era  int64
	ID   uint64 // no other entry of the place has it
	// Of an acquisition:
	First, Last int64  // both inclusive
	Attempt     int32  // how many times the records have been given out, this one included; >= 0
	Over        []Over // members whose offsets it takes

	Member  string // who has it; "" in an acquisition: nobody
	Timeout int32  // the member's session timeout in ms, > 0; 0 without a member
	Delete  bool   // the entry is deleted: all but what tells entries apart is zero
}

// Over names a member that is over, as far as the log is known up to Position.
type Over struct {
	Member   string
	Position int64
}

// MaxOffset is the last offset that a range can hold.
const MaxOffset = 1<<63 - 2

// Check says what makes an entry impossible.
func (e *Entry) Check() error {
	switch {
	case e.Era < 0:
		return fmt.Errorf("era %d", e.Era)
	case e.Kind == Acquisition && (e.First < 0 || e.First > e.Last || e.Last > MaxOffset):
		return fmt.Errorf("offsets %d-%d", e.First, e.Last)
	case e.Kind > Session:
		return fmt.Errorf("kind %d", e.Kind)
	case e.Delete:
		return nil
	case e.Kind == Session && e.Member == "":
		return fmt.Errorf("a session without a member")
	case e.Attempt < 0 || e.Timeout < 0 || e.Member != "" && e.Timeout == 0:
		return fmt.Errorf("attempt %d, session timeout %d ms", e.Attempt, e.Timeout)
	}
	for _, o := range e.Over {
		if o.Member == "" || o.Position < 0 {
			return fmt.Errorf("member %q is over at %d", o.Member, o.Position)
		}
	}
	return nil
}

func (e *Entry) String() string {
	switch {
	case e.Kind == Session && !e.Delete:
		return fmt.Sprintf("#%x session of %s", e.ID, e.Member)
	case e.Delete:
		return fmt.Sprintf("#%x deleted", e.ID)
	}
	return fmt.Sprintf("#%x %q acquires %d-%d, attempt %d, over %v", e.ID, e.Member, e.First, e.Last, e.Attempt, e.Over)
}
