package executor

import "bytes"

// key is what its records have in common while they are in memory. With ByPartition a partition has one.
//
// Invariant: while handed is 0 and there is a head, the head is armed: it is ready, or waits for something that will come.
type key[R any] struct {
	p     *partition[R]
	hash  uint32
	name  []byte // in the memory of one of its records
	chain *key[R]

	head, tail *Task[R] // not handed out, by offset
	waiting    int      // from head to tail
	handed     int
	armed      bool

	shed      *shed[R] // nil: nothing was
	needed    bool     // in partition.needy
	rereading bool     // in partition.reading
	full      bool     // while rereading: it takes no more
	dropping  bool
	single    bool // of one record: it is in no table
}

func (k *key[R]) pushBack(t *Task[R]) {
	if t.next = nil; k.tail == nil {
		k.head = t
	} else {
		k.tail.next = t
	}
	k.tail = t
	k.waiting++
}

func (k *key[R]) pushFront(t *Task[R]) {
	if t.next = k.head; k.head == nil {
		k.tail = t
	}
	k.head = t
	k.waiting++
}

func (k *key[R]) popFront() {
	t := k.head
	if k.head = t.next; k.head == nil {
		k.tail = nil
	}
	t.next = nil
	k.waiting--
}

// table finds keys by partition and bytes.
type table[R any] struct {
	buckets []*key[R] // their number is a power of two
	n       int
	spare   *key[R]
}

func (t *table[R]) get(p *partition[R], hash uint32, name []byte) *key[R] {
	if t.n == 0 {
		return nil
	}
	for k := t.buckets[(hash^p.salt)&uint32(len(t.buckets)-1)]; k != nil; k = k.chain {
		if k.hash == hash && k.p == p && bytes.Equal(k.name, name) {
			return k
		}
	}
	return nil
}

func (t *table[R]) insert(p *partition[R], hash uint32, name []byte) *key[R] {
	if t.n >= len(t.buckets) {
		old := t.buckets
		t.buckets = make([]*key[R], max(256, 2*len(old)))
		for _, k := range old {
			for k != nil {
				next := k.chain
				t.link(k)
				k = next
			}
		}
	}
	k := t.spare
	if k == nil {
		k = new(key[R])
	} else {
		t.spare = k.chain
	}
	*k = key[R]{p: p, hash: hash, name: name}
	t.link(k)
	t.n++
	return k
}

func (t *table[R]) link(k *key[R]) {
	b := &t.buckets[(k.hash^k.p.salt)&uint32(len(t.buckets)-1)]
	k.chain, *b = *b, k
}

func (t *table[R]) remove(k *key[R]) {
	b := &t.buckets[(k.hash^k.p.salt)&uint32(len(t.buckets)-1)]
	for *b != k {
		b = &(*b).chain
	}
	*b = k.chain
	*k = key[R]{chain: t.spare}
	t.spare = k
	t.n--
}

// each calls f for every key. f may remove the key that it is called for.
func (t *table[R]) each(f func(k *key[R])) {
	for _, k := range t.buckets {
		for k != nil {
			next := k.chain
			f(k)
			k = next
		}
	}
}
