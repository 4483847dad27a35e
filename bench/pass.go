package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// passTable compares consuming and producing 1 KB records direct, through the gateway and through a bare forwarder.
func passTable(b *bench) (*result, error) {
	const partitions, size = 4, 1000
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	f, err := b.forwarder()
	if err != nil {
		return nil, err
	}
	defer f.stop()
	sides := []struct {
		name, addr string
		p          *process
		opts       []kgo.Opt
	}{{"direct", k.addr, nil, nil}, {"gateway", g.addr, g, nil}, {"bare forwarder", k.addr, f, []kgo.Opt{through(f.addr)}}}

	r := &result{Head: []string{"1 KB records", "MB/s", "of direct", "target", "CPU s/GB", "target", "client's CPU s/GB"}}
	add := func(what string, all [][]run, least, most float64) {
		for i, s := range sides {
			of := ratio(pick(all[i], run.mbPerSecond), pick(all[0], run.mbPerSecond))
			perGB := median(pick(all[i], run.serverPerGB))
			cells := []string{what + ", " + s.name, fmt.Sprintf("%.0f", median(pick(all[i], run.mbPerSecond))), "", "", "", "", fmt.Sprintf("%.2f", median(pick(all[i], run.clientPerGB)))}
			if s.p != nil {
				cells[2], cells[4] = fmt.Sprintf("%.2f", of), fmt.Sprintf("%.2f", perGB)
			}
			if s.p == g {
				cells[3] = verdict(of >= least, fmt.Sprintf("≥ %.2f", least))
				if most > 0 {
					cells[5] = verdict(perGB <= most, fmt.Sprintf("≤ %.2f", most))
				}
			}
			r.row(cells...)
		}
	}

	records := b.scaled(1_000_000, 20_000)
	topic := b.name("pass")
	if err := b.topic(topic, partitions); err != nil {
		return nil, err
	}
	if err := b.fill(k.addr, topic, data{records: records, bytes: size}); err != nil {
		return nil, err
	}
	var compare []side
	for _, s := range sides {
		compare = append(compare, side{s.name, func() (run, error) {
			return b.measure(s.p, func() (float64, error) { return b.consume(s.addr, topic, partitions, 1, records, s.opts...) })
		}})
	}
	all, err := b.turns("consume", compare...)
	if err != nil {
		return nil, err
	}
	add("consume", all, 0.85, 0.5)
	b.dropTopics(topic)

	records = b.scaled(500_000, 20_000)
	compare = nil
	for _, s := range sides {
		compare = append(compare, side{s.name, func() (run, error) {
			topic := b.name("produce")
			if err := b.topic(topic, partitions); err != nil {
				return run{}, err
			}
			defer b.dropTopics(topic)
			return b.measure(s.p, func() (float64, error) { return b.produce(s.addr, topic, records, size, s.opts...) })
		}})
	}
	if all, err = b.turns("produce", compare...); err != nil {
		return nil, err
	}
	add("produce", all, 0.95, 0)
	r.note("One consumer of, and one producer to, %d partitions on one broker, franz-go with its default settings, no compression; medians of %d turns. "+
		"The bare forwarder only splices bytes: what a process in between costs at the least.", partitions, b.rounds)
	return r, nil
}
