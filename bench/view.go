package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// viewTable compares reading a view of a one-partition topic with reading real topics that hold the same records.
func viewTable(b *bench) (*result, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway()
	if err != nil {
		return nil, err
	}
	defer g.stop()
	r := &result{Head: []string{"codec", "read by", "MB/s", "of direct", "target", "gateway CPU s/GB", "client's CPU s/GB", "broker's CPU s/GB", "idle cores", "read from the broker / log"}}
	codecs := []struct {
		name  string
		codec kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"lz4", kgo.Lz4Compression()}}
	for _, c := range codecs {
		// Even a trial reads more than the gateway keeps in memory (128 MiB).
		d := data{records: b.scaled(600_000, 300_000), bytes: 1000, keys: 10_000, codec: c.codec}
		one, eight := b.name("orders"), b.name("orders8")
		if err := b.topic(one, 1); err != nil {
			return nil, err
		}
		if err := b.topic(eight, 8); err != nil {
			return nil, err
		}
		for _, topic := range []string{one, eight} {
			if err := b.fill(k.addr, topic, d); err != nil {
				return nil, err
			}
		}
		view16, err := b.view(g.addr, one, 16)
		if err != nil {
			return nil, err
		}
		view8, err := b.view(g.addr, one, 8)
		if err != nil {
			return nil, err
		}
		log, err := b.logBytes(one)
		if err != nil {
			return nil, err
		}
		read := func(p *process, addr, topic string, partitions, members int) func() (run, error) {
			return func() (run, error) {
				return b.measure(p, func() (float64, error) { return b.consume(addr, topic, partitions, members, d.records) })
			}
		}
		groups := [][]side{
			{
				{"1 consumer, plain topic, direct", read(nil, k.addr, one, 1, 1)},
				{"1 consumer, plain topic, through the gateway", read(g, g.addr, one, 1, 1)},
				{"1 consumer, view of 16", read(g, g.addr, view16, 16, 1)},
			},
			{
				{"8 consumers, topic of 8, direct", read(nil, k.addr, eight, 8, 8)},
				{"8 consumers, topic of 8, through the gateway", read(g, g.addr, eight, 8, 8)},
				{"8 consumers, view of 8", read(g, g.addr, view8, 8, 8)},
			},
		}
		for n, sides := range groups {
			least := []float64{0.8, 0.9}[n]
			all, err := b.turns("view "+c.name, sides...)
			if err != nil {
				return nil, err
			}
			for i, s := range sides {
				of := ratio(pick(all[i], run.mbPerSecond), pick(all[0], run.mbPerSecond))
				cells := []string{c.name, s.name, fmt.Sprintf("%.0f", median(pick(all[i], run.mbPerSecond))), "", "", "", fmt.Sprintf("%.2f", median(pick(all[i], run.clientPerGB))),
					fmt.Sprintf("%.2f", median(pick(all[i], run.brokerPerGB))), fmt.Sprintf("%.2f", median(pick(all[i], run.idle))), ""}
				if i > 0 {
					cells[3], cells[5] = fmt.Sprintf("%.2f", of), fmt.Sprintf("%.2f", median(pick(all[i], run.serverPerGB)))
				}
				if i == 2 {
					if c.name == "none" {
						cells[4] = verdict(of >= least, fmt.Sprintf("≥ %.1f", least))
					}
					cells[9] = fmt.Sprintf("%.2f", median(pick(all[i], func(r run) float64 { return r.read / log })))
				}
				r.row(cells...)
			}
		}
		b.dropTopics(view16, view8, one, eight)
	}
	r.note("1 KB records with 10,000 keys, read from the start; %d turns. All of client, gateway and broker share the machine's cores and eight consumers leave none of them idle, so each CPU second of the gateway is taken from the others: what the third line of a group gets of the first is about the sum of their CPU s/GB, the other way round. "+
		"Consumers that read a log far behind its end drift apart, and the source is read again where one falls out of the memory bound; near the tail see the next table.", b.rounds)
	return r, nil
}
