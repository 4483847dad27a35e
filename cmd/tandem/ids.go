package main

import "encoding/base64"

// topicID is a topic id as Kafka's tools write it; empty for none.
func topicID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
