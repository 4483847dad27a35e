package consume

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/tandem-kafka/tandem/client"
)

// ours begins the names of all variables that environ sets.
const ours = "TANDEM_"

// environ is what a command sees of a record beside its value. A null key has no variables; a key or header value with a NUL
// byte, which no variable can hold, has only the base64 form.
func environ(r *client.Record) []string {
	env := []string{
		"TANDEM_TOPIC=" + r.Topic,
		"TANDEM_PARTITION=" + strconv.Itoa(int(r.Partition)),
		"TANDEM_OFFSET=" + strconv.FormatInt(r.Offset, 10),
		"TANDEM_TIMESTAMP=" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10),
		"TANDEM_ATTEMPT=" + strconv.Itoa(r.Attempt),
	}
	if r.Value == nil {
		env = append(env, "TANDEM_VALUE_NULL=1")
	}
	if r.Key != nil {
		if bytes.IndexByte(r.Key, 0) < 0 {
			env = append(env, "TANDEM_KEY="+string(r.Key))
		}
		env = append(env, "TANDEM_KEY_BASE64="+base64.StdEncoding.EncodeToString(r.Key))
	}
	if len(r.Headers) == 0 {
		return env
	}
	for _, h := range r.Headers { // of several with one name the last one counts
		if bytes.IndexByte(h.Value, 0) < 0 {
			env = append(env, "TANDEM_HEADER_"+variable(h.Key)+"="+string(h.Value))
		}
	}
	return append(env, "TANDEM_HEADERS="+headersJSON(r))
}

// variable makes a header's name one of a variable: A to Z, digits and underscores.
func variable(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		}
		return '_'
	}, name)
}

// headersJSON are all headers in their order, as [{"key":"...","value":"base64, or null"}, ...], in ASCII.
func headersJSON(r *client.Record) string {
	type header struct {
		Key   string `json:"key"`
		Value []byte `json:"value"`
	}
	list := make([]header, len(r.Headers))
	for i, h := range r.Headers {
		list[i] = header{h.Key, h.Value}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "[]" // text and bytes have no errors
	}
	var b strings.Builder
	for _, c := range string(data) {
		if c < 0x80 && c != 0x7f {
			b.WriteRune(c)
			continue
		}
		for _, u := range utf16.AppendRune(nil, c) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}
