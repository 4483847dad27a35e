package consume

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/client"
)

// endpoint is an HTTP server with one answer, and a Post to it.
func endpoint(t *testing.T, o PostOptions, answer http.HandlerFunc) *Post {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	p, err := NewPost(s.URL+"/in?x=1", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestARecordIsPosted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*client.Record)
		body   string
		want   map[string]string // beside those of each record
	}{
		"text key":   {nil, "line 1\nline 2", map[string]string{"Key": "k 1", "Key-Base64": "ayAx"}},
		"null key":   {func(r *client.Record) { r.Key = nil }, "line 1\nline 2", nil},
		"binary key": {func(r *client.Record) { r.Key = []byte("a\r\nX: y") }, "line 1\nline 2", map[string]string{"Key-Base64": "YQ0KWDogeQ=="}},
		"blanks":     {func(r *client.Record) { r.Key = []byte(" a") }, "line 1\nline 2", map[string]string{"Key-Base64": "IGE="}},
		"tombstone":  {func(r *client.Record) { r.Key, r.Value = nil, nil }, "", map[string]string{"Value-Null": "true"}},
		"headers": {func(r *client.Record) {
			r.Key, r.Value = nil, []byte{}
			r.Headers = []kgo.RecordHeader{{Key: "trace id", Value: []byte("1")}, {Key: "trace id", Value: []byte("2")}, {Key: "b", Value: []byte("\n")}}
		}, "", map[string]string{"Header-Trace-Id": "1,2", "Headers": `[{"key":"trace id","value":"MQ=="},{"key":"trace id","value":"Mg=="},{"key":"b","value":"Cg=="}]`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			var body []byte
			p := endpoint(t, PostOptions{Header: http.Header{"Authorization": {"Bearer x"}}, Concurrency: 1}, func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				w.WriteHeader(http.StatusAccepted)
			})
			if err := p.Handle(t.Context(), order(c.change)); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"Topic": "orders", "Partition": "3", "Offset": "1205", "Timestamp": "1700000000123", "Attempt": "2"}
			for k, v := range c.want {
				want[k] = v
			}
			found := map[string]string{}
			for k, v := range got.Header {
				if name, ok := strings.CutPrefix(k, "Tandem-"); ok {
					found[name] = strings.Join(v, ",")
				}
			}
			if !reflect.DeepEqual(found, want) {
				t.Errorf("%v, want %v", found, want)
			}
			if got.Method != http.MethodPost || got.URL.String() != "/in?x=1" || string(body) != c.body || got.Header.Get("Authorization") != "Bearer x" ||
				got.Header.Get("Content-Type") != "application/octet-stream" || got.ContentLength != int64(len(c.body)) {
				t.Errorf("%s %s, %d bytes %q, %v", got.Method, got.URL, got.ContentLength, body, got.Header)
			}
		})
	}
}

func TestOnly2xxIsASuccess(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "",
		301: "status 301", 302: "status 302", 303: "status 303", 400: "status 400 Bad Request: no", 404: "status 404", 429: "status 429", 500: "status 500", 503: "status 503",
	} {
		calls := 0
		p := endpoint(t, PostOptions{Concurrency: 1}, func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls > 1 { // a redirect was followed
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			if status != 204 {
				_, _ = io.WriteString(w, "no\n"+strings.Repeat(".", 1<<20))
			}
		})
		err := p.Handle(t.Context(), order(nil))
		if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || len(err.Error()) > maxSaid+100) || calls != 1 {
			t.Errorf("status %d: %.80v, %d calls", status, err, calls)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"99999999999999", "", maxRetryAfter},
		{"Wed, 02 Jan 2030 03:04:35 GMT", "", 30 * time.Second},
		{"Wednesday, 02-Jan-30 03:04:35 GMT", "", 30 * time.Second},
		{"Wed, 02 Jan 2030 03:00:00 GMT", "", 0},
		{"Wed, 02 Jan 2031 03:00:00 GMT", "", maxRetryAfter},
		{"Wed, 02 Jan 2030 05:00:10 GMT", "Wed, 02 Jan 2030 05:00:00 GMT", 10 * time.Second}, // its clock is fast
	} {
		h := http.Header{"Retry-After": {c.after}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q: %v, want %v", c.after, got, c.want)
		}
	}
	for status, later := range map[int]bool{429: true, 503: true, 500: false} {
		p := endpoint(t, PostOptions{Concurrency: 1}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		err := p.Handle(t.Context(), order(nil))
		if reflect.DeepEqual(err, client.RetryAfter(errors.Unwrap(err), 7*time.Second)) != later {
			t.Errorf("status %d: %#v", status, err)
		}
	}
}

func TestAnEndpointThatDoesNotAnswer(t *testing.T) {
	p := endpoint(t, PostOptions{Timeout: 50 * time.Millisecond, Concurrency: 1}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if err := p.Handle(t.Context(), order(func(r *client.Record) { r.Value = nil })); err == nil || err.Error() != "no answer in 50ms" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Handle(ctx, order(nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s := httptest.NewServer(nil)
	s.Close()
	gone, err := NewPost(s.URL, PostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Handle(t.Context(), order(nil)); err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "Post") {
		t.Error(err)
	}
}

func TestURLsOfNoEndpoint(t *testing.T) {
	for _, u := range []string{"", "localhost:80", "ftp://a/", "http://", "http://a b/", "http:///x"} {
		if _, err := NewPost(u, PostOptions{}); err == nil {
			t.Errorf("%q is taken", u)
		}
	}
}
