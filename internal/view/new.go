package view

import (
	"fmt"
	"strconv"
	"strings"
)

// Source is what New must know about the topic a view is asked for.
type Source struct {
	Name       string
	ID         [16]byte // zero: the cluster has no topic ids
	Partitions int32    // 0: there is no such topic
	Internal   bool     // as Metadata says
	View       bool     // it is a view itself
}

// ParseName splits a name of the form <source>.view<V>. The digits of V have no leading zero; a number that does not fit
// gives the largest int32, which New refuses. Such a name need not be possible: that is for New to say.
func ParseName(name string) (source string, v int32, ok bool) {
	i := strings.LastIndex(name, ".view")
	if i < 1 {
		return "", 0, false
	}
	digits := name[i+len(".view"):]
	if digits == "" || digits[0] == '0' && len(digits) > 1 || strings.Trim(digits, "0123456789") != "" {
		return "", 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		n = 1<<31 - 1
	}
	return name[:i], int32(n), true
}

// AutoName is the name of the view of source that is made by asking for it: ParseName's reverse.
func AutoName(source string, v int32) string { return fmt.Sprintf("%s.view%d", source, v) }

// New defines a view with v virtual partitions. Its errors are for people: they say what is wrong and which v would do.
func New(name string, source Source, v int32, createdMs int64) (Definition, error) {
	if err := ValidTopic(name); err != nil {
		return Definition{}, fmt.Errorf("a view cannot be named %.300q: %w", name, err)
	}
	refuse := func(format string, args ...any) (Definition, error) {
		return Definition{}, fmt.Errorf("no view %s of %.300q: %s", name, source.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case name == source.Name:
		return refuse("a view cannot be its own source")
	case InternalName(name):
		return refuse("names that begin like internal topics are not for views")
	case source.View:
		return refuse("the source is a view itself; take the view's source")
	case source.Internal || InternalName(source.Name):
		return refuse("the source is an internal topic")
	case source.Partitions < 1:
		return refuse("there is no such topic")
	case source.Partitions > MaxPartitions:
		return refuse("the source has %d partitions, a view can have at most %d", source.Partitions, MaxPartitions)
	}
	if v < 1 || v > MaxPartitions || v%source.Partitions != 0 || !powerOfTwo(v/source.Partitions) {
		return refuse("%d virtual partitions are not possible: the source has %d, so that %s would do",
			v, source.Partitions, would(source.Partitions, v))
	}
	d := Definition{Name: name, Source: source.Name, SourceID: source.ID, Base: source.Partitions, Partitions: v,
		K: v / source.Partitions, CreatedMs: createdMs}
	return d, d.Validate()
}

// Possible lists the numbers of virtual partitions that a view of a topic can have, ascending.
func Possible(sourcePartitions int32) []int32 {
	var vs []int32
	for v := int64(sourcePartitions); sourcePartitions > 0 && v <= MaxPartitions; v *= 2 {
		vs = append(vs, int32(v))
	}
	return vs
}

// would names the possible numbers around v: "4 or 8", or the largest or smallest.
func would(sourcePartitions, v int32) string {
	vs := Possible(sourcePartitions)
	for i, p := range vs {
		if p > v {
			if i == 0 {
				return strconv.Itoa(int(p))
			}
			return fmt.Sprintf("%d or %d", vs[i-1], p)
		}
	}
	return fmt.Sprintf("at most %d", vs[len(vs)-1])
}

func powerOfTwo(n int32) bool { return n > 0 && n&(n-1) == 0 }

// InternalName reports whether name belongs to Kafka's or Tandem's own topics.
func InternalName(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata":
		return true
	}
	return strings.HasPrefix(name, "__tandem_") || name == "__individual_commit_offsets"
}

// ValidTopic returns an error when name breaks Kafka's rules for topic names (org.apache.kafka.common.internals.Topic).
func ValidTopic(name string) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%q is not a topic name", name)
	}
	if len(name) > 249 {
		return fmt.Errorf("a topic name has at most 249 characters, not %d", len(name))
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%.300q has a character other than letters, digits, '.', '_' and '-'", name)
		}
	}
	return nil
}
