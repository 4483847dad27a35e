// Package wire owns the framing of the Kafka protocol: reading frames within
// bounds, request headers, and which API keys and versions the gateway lets
// its clients see. It knows no message bodies beyond the few leading fields
// that decide where a request goes; bodies are kmsg's.
package wire
