package tandemmsg

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFetchMember(t *testing.T) {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12
	if _, ok, err := FetchMember(req); ok || err != nil {
		t.Errorf("of a request without: %t, %v", ok, err)
	}
	want := Member{"payments", "c-1", 7}
	must(t, SetFetchMember(req, want))
	sent := kmsg.NewPtrFetchRequest()
	sent.Version = 12
	must(t, sent.ReadFrom(req.AppendTo(nil)))
	if m, ok, err := FetchMember(sent); m != want || !ok || err != nil {
		t.Errorf("%+v, %t, %v", m, ok, err)
	}
	for _, m := range []Member{{"", "c-1", 7}, {"payments", "", 7}, {"payments", "c-1", -1}} {
		if SetFetchMember(req, m) == nil {
			t.Errorf("%+v is taken", m)
		}
	}
	if m, _, _ := FetchMember(req); m != want {
		t.Errorf("a refused member changed it to %+v", m)
	}
	b, _ := find(&req.UnknownTags, TagMember)
	for _, v := range [][]byte{nil, b[:3], b[:12], b[:len(b)-1], append(bytes.Clone(b), 0), {1, 0, 0, 0, 7, 2, 'a'}, {2, 'a', 0, 0, 0, 7, 1}, {2, 'a', 0xff, 0, 0, 7, 2, 'a'}, {2, 0xff, 0, 0, 0, 7, 2, 'a'}} {
		bad := kmsg.NewPtrFetchRequest()
		bad.UnknownTags.Set(TagMember, v)
		if m, ok, err := FetchMember(bad); !ok || err == nil {
			t.Errorf("% x is taken for %+v", v, m)
		}
	}
	must(t, SetFetchMember(req, Member{}))
	if req.UnknownTags.Len() != 0 {
		t.Error("it is not removed")
	}
}
