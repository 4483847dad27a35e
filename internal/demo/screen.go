package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
)

// Screen shows a demo under way. Its methods are called by one goroutine.
type Screen interface {
	Draw(Picture)
	Event(format string, args ...any)
}

// Picture is the state at one moment.
type Picture struct {
	Topic       string
	Virtual     bool // the topic is a view
	Elapsed     time.Duration
	Done, Total int     // records
	Rate        float64 // records per second in the last second
	Consumers   []ConsumerState
}

// ConsumerState is one line of the picture.
type ConsumerState struct {
	Name       string
	Partitions []int32
	Handled    int
	Rate       float64 // records per second in the last second
	Working    bool
	Killed     bool

	lastEnd time.Time
	err     error
}

type noScreen struct{}

func (noScreen) Draw(Picture)         {}
func (noScreen) Event(string, ...any) {}

// Lines writes a line a second.
func Lines(w io.Writer) Screen { return &lines{w: w} }

type lines struct {
	w     io.Writer
	topic string
	next  time.Duration
}

func (l *lines) Draw(p Picture) {
	if p.Topic != l.topic {
		l.topic, l.next = p.Topic, 0
	}
	if p.Elapsed < l.next {
		return
	}
	l.next = p.Elapsed.Truncate(time.Second) + time.Second
	var who []string
	idle := 0
	for _, c := range p.Consumers {
		switch {
		case c.Killed:
		case len(c.Partitions) == 0:
			idle++
		default:
			who = append(who, strings.TrimPrefix(c.Name, "consumer-")+":"+partitionsText(c.Partitions, p.Virtual))
		}
	}
	fmt.Fprintf(l.w, "%-13s %4.0fs %6.0f records/s %7d of %d done, %d idle  %s\n",
		p.Topic, p.Elapsed.Seconds(), p.Rate, p.Done, p.Total, idle, strings.Join(who, " "))
}

func (l *lines) Event(format string, args ...any) { fmt.Fprintf(l.w, "- "+format+"\n", args...) }

// Terminal redraws one picture in place. Its lines are at most 78 columns.
func Terminal(w io.Writer) Screen {
	r := lipgloss.NewRenderer(w)
	return &terminal{
		w:     w,
		bold:  r.NewStyle().Bold(true),
		faint: r.NewStyle().Faint(true),
		work:  r.NewStyle().Foreground(lipgloss.Color("2")),
		bad:   r.NewStyle().Foreground(lipgloss.Color("1")),
	}
}

type terminal struct {
	w                      io.Writer
	bold, faint, work, bad lipgloss.Style
	drawn                  int // lines of the last picture, which the next one replaces
	topic                  string
}

const (
	barWidth = 24
	maxRows  = 20 // consumers in the picture: more than a terminal's lines cannot be redrawn
)

func (t *terminal) Draw(p Picture) {
	if p.Topic != t.topic { // a new part: leave the last picture of the old one
		t.topic, t.drawn = p.Topic, 0
		fmt.Fprintln(t.w)
	}
	best := 1.0
	for _, c := range p.Consumers {
		best = max(best, c.Rate)
	}
	var rows []string
	rows = append(rows,
		t.bold.Render(fmt.Sprintf("%-30.30s", p.Topic))+fmt.Sprintf("%8.0f records/s   %d of %d", p.Rate, p.Done, p.Total))
	for i, c := range p.Consumers {
		if i == maxRows-1 && len(p.Consumers) > maxRows {
			rows = append(rows, t.faint.Render(fmt.Sprintf("  and %d more", len(p.Consumers)-i)))
			break
		}
		name := fmt.Sprintf("  %-12s", c.Name)
		switch {
		case c.Killed:
			rows = append(rows, name+t.bad.Render("killed"))
		case len(c.Partitions) == 0:
			rows = append(rows, name+t.faint.Render("idle: no partition"))
		default:
			filled := min(int(c.Rate/best*barWidth+0.5), barWidth)
			bar := t.work.Render(strings.Repeat("█", filled)) + t.faint.Render(strings.Repeat("·", barWidth-filled))
			rows = append(rows, fmt.Sprintf("%s%s %5.0f/s  %.28s", name, bar, c.Rate, partitionsText(c.Partitions, p.Virtual)))
		}
	}
	var out strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", t.drawn)
	}
	for _, row := range rows {
		out.WriteString("\x1b[2K" + row + "\n")
	}
	t.drawn = len(rows)
	fmt.Fprint(t.w, out.String())
}

// Event writes above the next picture.
func (t *terminal) Event(format string, args ...any) {
	text := t.faint.Render("- " + fmt.Sprintf(format, args...))
	if t.drawn > 0 {
		fmt.Fprintf(t.w, "\x1b[%dA\x1b[0J%s\n", t.drawn, text)
		t.drawn = 0
		return
	}
	fmt.Fprintln(t.w, text)
}

// partitionsText is v0,v3 for virtual partitions and p0 for a topic's own.
func partitionsText(partitions []int32, virtual bool) string {
	letter := "p"
	if virtual {
		letter = "v"
	}
	parts := make([]string, len(partitions))
	for i, p := range partitions {
		parts[i] = fmt.Sprint(letter, p)
	}
	return strings.Join(parts, ",")
}
