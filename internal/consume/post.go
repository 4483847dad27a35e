package consume

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-kafka/tandem/client"
)

// maxRetryAfter bounds how long an endpoint can hold up a key.
const maxRetryAfter = 24 * time.Hour

// maxBody is how much of an answer is read, so that its connection can be used again.
const maxBody = 64 << 10

// Post posts each record to an HTTP endpoint: the value is the body, the rest is in headers Tandem-*.
type Post struct {
	url     string
	header  http.Header
	timeout time.Duration
	http    *http.Client
}

// PostOptions are the settings of a Post.
type PostOptions struct {
	Header      http.Header   // of every request, such as Authorization. Content-Type is application/octet-stream unless it is here
	Timeout     time.Duration // of one request with its answer. 0: none
	Concurrency int           // how many connections are kept open, >= 1
}

// NewPost returns a Post for an http or https URL.
func NewPost(to string, o PostOptions) (*Post, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of an HTTP endpoint: it has to begin with http:// or https:// and a host", to)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = o.Concurrency, o.Concurrency
	p := &Post{url: to, header: o.Header.Clone(), timeout: o.Timeout, http: &http.Client{Transport: t}}
	// Go would follow most redirects with a GET, whose success says nothing about the record.
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if p.header == nil {
		p.header = http.Header{}
	}
	if p.header.Get("Content-Type") == "" {
		p.header.Set("Content-Type", "application/octet-stream")
	}
	return p, nil
}

// Close closes the connections that wait for their next request.
func (p *Post) Close() { p.http.CloseIdleConnections() }

// Handle posts a record; nil: the answer's status was 2xx. With 429 and 503 the error is a client.RetryAfter as long as the
// answer's Retry-After says, at most a day.
func (p *Post) Handle(ctx context.Context, r *client.Record) error {
	run := ctx
	if p.timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(run, http.MethodPost, p.url, bytes.NewReader(r.Value))
	if err != nil {
		return err
	}
	req.Header = p.header.Clone()
	describe(req.Header, r)
	resp, err := p.http.Do(req)
	if err != nil {
		if ctx.Err() == nil && run.Err() != nil {
			return fmt.Errorf("no answer in %v", p.timeout)
		}
		var u *url.Error
		if errors.As(err, &u) { // without the URL, which is always the same
			err = u.Err
		}
		return fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // the status counts
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("status %s%s", resp.Status, said(body[:min(len(body), maxSaid)]))
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if d := retryAfter(resp.Header, time.Now()); d > 0 {
			return client.RetryAfter(err, d)
		}
	}
	return err
}

// retryAfter is how long an answer says to wait: seconds or an HTTP date, which counts by the answer's own clock where that is
// known. 0: it says nothing that can be understood, or now.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// describe adds the headers of a record. What no header can hold as text has only its base64 form.
func describe(h http.Header, r *client.Record) {
	h.Set("Tandem-Topic", r.Topic)
	h.Set("Tandem-Partition", strconv.Itoa(int(r.Partition)))
	h.Set("Tandem-Offset", strconv.FormatInt(r.Offset, 10))
	h.Set("Tandem-Timestamp", strconv.FormatInt(r.Timestamp.UnixMilli(), 10))
	h.Set("Tandem-Attempt", strconv.Itoa(r.Attempt))
	if r.Value == nil {
		h.Set("Tandem-Value-Null", "true")
	}
	if r.Key != nil {
		if plain(r.Key) {
			h.Set("Tandem-Key", string(r.Key))
		}
		h.Set("Tandem-Key-Base64", base64.StdEncoding.EncodeToString(r.Key))
	}
	if len(r.Headers) == 0 {
		return
	}
	for _, k := range r.Headers {
		if plain(k.Value) {
			h.Add("Tandem-Header-"+token(k.Key), string(k.Value))
		}
	}
	h.Set("Tandem-Headers", headersJSON(r))
}

// plain reports whether an HTTP header's value can hold b and gives it back unchanged: printable ASCII without blanks at the ends.
func plain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(bytes.TrimSpace(b)) == len(b)
}

// token makes a record header's name one of an HTTP header: letters, digits and hyphens.
func token(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		}
		return '-'
	}, name)
}
