package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// splitFloors are 0.6 of what a bare loop over the same bytes reached on one core of the machine that the targets were set on,
// in uncompressed MB/s, for K=16: by codec, for records of 1 KB and of 100 B.
var splitFloors = map[string][2]float64{
	"none": {3100, 2200}, "lz4": {2000, 1400}, "zstd": {640, 550}, "snappy": {1200, 960}, "gzip": {165, 180},
}

// splitTable runs the Go benchmarks of internal/split on one core.
func splitTable(b *bench) (*result, error) {
	length := fmt.Sprintf("%dx", b.scaled(400, 20))
	out, err := b.output("go", "test", "./internal/split", "-run", "^$", "-bench", "^BenchmarkSplit$", "-benchmem", "-cpu", "1", "-benchtime", length, "-count", strconv.Itoa(b.rounds))
	if err != nil {
		return nil, err
	}
	mbs, allocs := map[string][]float64{}, map[string][]float64{}
	for scan := bufio.NewScanner(strings.NewReader(out)); scan.Scan(); {
		f := strings.Fields(scan.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "BenchmarkSplit/") {
			continue
		}
		name := strings.TrimPrefix(f[0], "BenchmarkSplit/")
		for i := 2; i+1 < len(f); i += 2 {
			v, _ := strconv.ParseFloat(f[i], 64)
			switch f[i+1] {
			case "MB/s":
				mbs[name] = append(mbs[name], v)
			case "allocs/record":
				allocs[name] = append(allocs[name], v)
			}
		}
	}
	r := &result{Head: []string{"codec", "record", "K=4", "K=16", "target", "K=64", "K=256", "allocations per record"}}
	for _, codec := range []string{"none", "lz4", "zstd", "snappy", "gzip"} {
		for i, size := range []string{"1000", "100"} {
			at := func(k string) string { return codec + "/" + size + "/K=" + k }
			speed := func(k string) string { return fmt.Sprintf("%.0f MB/s", median(mbs[at(k)])) }
			if len(mbs[at("16")]) == 0 {
				return nil, fmt.Errorf("no benchmark %s in:\n%s", at("16"), out)
			}
			floor := 0.6 * splitFloors[codec][i]
			r.row(codec, size+" B", speed("4"), speed("16"), verdict(median(mbs[at("16")]) >= floor, fmt.Sprintf("≥ %.0f", floor)), speed("64"), speed("256"), fmt.Sprintf("%.4f", median(allocs[at("16")])))
		}
	}
	r.note("Uncompressed bytes on one core: decompress, parse, hash, checksum, copy. `go test -bench Split ./internal/split`; medians of %d.", b.rounds)
	return r, nil
}
