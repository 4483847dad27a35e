// Package view knows what a view is: its definition, its name, and which virtual partition shows which slice of
// which source partition, also after the source has grown.
//
// It also owns the log of definitions that all gateways of a cluster share (the topic __tandem_views) as a pure replay:
// records in, definitions and broker port slots out. Reading and writing the topic is upstream's.
package view
