package peers

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Work says what is to be done. The same Work is the same tasks, whoever does them.
type Work struct {
	Records, Keys int
	Zipf          float64       // exponent of the keys' frequencies; 0: all are as frequent
	Takes         time.Duration // a record
	Uniform       bool          // between 0 and twice as long
	Stuck         time.Duration // a record of key 0; 0: as others
	Without       bool          // the records of key 0 are left out: what the others can do alone
	Rate          int           // records a second; 0: all are there from the start
	Bytes         int           // of a value
	Cap           time.Duration // when to stop, whatever is done
}

// Task is what one record asks for. It travels in the record's value.
type Task struct {
	Index, Key, Seq uint32 // of the record, its key, and among the records of the key
	Takes           time.Duration
}

const taskBytes = 16

func (t Task) encode(bytes int) []byte {
	v := make([]byte, max(taskBytes, bytes))
	for i, n := range []uint32{t.Index, t.Key, t.Seq, uint32(t.Takes.Microseconds())} {
		binary.BigEndian.PutUint32(v[4*i:], n)
	}
	return v
}

func decodeTask(v []byte) (t Task, err error) {
	if len(v) < taskBytes {
		return t, fmt.Errorf("a value of %d bytes is no task", len(v))
	}
	n := func(i int) uint32 { return binary.BigEndian.Uint32(v[4*i:]) }
	return Task{n(0), n(1), n(2), time.Duration(n(3)) * time.Microsecond}, nil
}

// Tasks are the tasks of a Work, in the order of the log. Key 0 is the most frequent one.
func (w *Work) Tasks() []Task {
	r := rand.New(rand.NewPCG(42, 42))
	upTo, sum := make([]float64, w.Keys), 0.0
	for k := range upTo {
		sum += math.Pow(float64(k+1), -w.Zipf)
		upTo[k] = sum
	}
	seq := make([]uint32, w.Keys)
	tasks := make([]Task, 0, w.Records)
	for range w.Records {
		key := min(sort.SearchFloat64s(upTo, r.Float64()*sum), w.Keys-1)
		takes := w.Takes
		if w.Uniform {
			takes = time.Duration(2 * r.Float64() * float64(w.Takes))
		}
		if key == 0 && w.Without {
			continue
		}
		if key == 0 && w.Stuck > 0 {
			takes = w.Stuck
		}
		tasks = append(tasks, Task{uint32(len(tasks)), uint32(key), seq[key], takes})
		seq[key]++
	}
	return tasks
}

// due is when a record of a paced Work is to be sent, after its begin.
func (w *Work) due(index int) time.Duration {
	return time.Duration(index) * time.Second / time.Duration(w.Rate)
}
